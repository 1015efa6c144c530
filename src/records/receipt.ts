import type { ErrorSymbol } from '../core/errors.ts';
import {
  addUsage,
  noUnits,
  promptTokens,
  totalTokens,
  type Units,
  type Usage,
} from '../core/usage.ts';
import { type FlatTexts, type PriceTexts, textsFor } from '../money/price/price-list.ts';
import {
  type FemtoUsd,
  formatDecimal,
  type NanoUsd,
  parseUsd,
  perMillion,
  perMinute,
  perUnit,
} from '../money/price/usd.ts';
import { isoTime } from './period.ts';
import { feesOf, type RequestRecord, totalCharge } from './request-record.ts';

/** Everything that is known of one request, so that nobody has to take its charge on trust. */

export function receiptObject(record: RequestRecord, creditsPerUsd: number) {
  const { texts, aboveTokens } = pricesUsed(record);
  const lines = linesOf(record, creditsPerUsd);
  const cost = totalCharge(record.charges);
  return {
    request_id: record.requestId,
    api_key_id: record.keyId,
    operation: record.operation,
    job_id: record.jobId ?? null,
    model: record.requestedModel,
    answered_by: { model: record.model, provider: record.provider },
    status: record.status,
    error: record.error,
    failure: failureOf(record),
    traffic_mode: record.trafficMode,
    tokens: tokensOf(record.usage),
    usage_estimated: record.usageEstimated,
    lines,
    prices: texts,
    prices_above_tokens: aboveTokens,
    cost,
    usd: cost / creditsPerUsd,
    cost_breakdown: { ...feesOf(record.charges), total_charge: cost },
    not_charged: notChargedOf(record, lines),
    search_requests: record.searches,
    skills_used: record.skills,
    billing_note: record.note,
    finish_reason: record.finishReason,
    streamed: record.streamed,
    cancelled: record.cancelled,
    cache_hit: record.cacheHit,
    first_byte_ms: record.firstByteMs,
    latency_ms: record.durationMs,
    user: record.endUser,
    attempts: redactAttempts(record.attempts),
    created_at: isoTime(record.createdAt),
    generation_url: `/v1/generation?id=${record.requestId}`,
  };
}

export type Receipt = ReturnType<typeof receiptObject>;

/**
 * What a provider says of an account, or in place of an answer, is for the account's owner: it may
 * tell what the account owes, or name an inner machine. Errors to clients leave it out, too.
 */
const ownerOnlyOutcomes: ReadonlySet<string> = new Set(['credential', 'quota', 'malformed']);

function redactAttempts(attempts: RequestRecord['attempts']): RequestRecord['attempts'] {
  return attempts.map((one) =>
    ownerOnlyOutcomes.has(one.outcome) && !one.own_account ? { ...one, message: null } : one,
  );
}

/** The classes do not overlap, except that reasoning is part of the output. */
function tokensOf(usage: Usage) {
  return {
    input: usage.inputTokens,
    audio: usage.inputAudioTokens ?? 0,
    cache_read: usage.cacheReadTokens,
    cache_write: usage.cacheWriteTokens,
    cache_write_1h: usage.cacheWrite1hTokens ?? 0,
    prompt: promptTokens(usage),
    completion: usage.outputTokens,
    reasoning: usage.reasoningTokens,
    total: totalTokens(usage),
  };
}

/** The lines of a receipt: what was used, at the prices that it was charged by. */

const femtoPerUnit = 1_000_000_000_000_000n;

export interface ReceiptLine {
  /** The name of the price, as in the configuration. */
  readonly price: string;
  /** Tokens, characters, bytes, images or seconds. */
  readonly quantity: number;
  /** How many of them one price buys. */
  readonly per: number;
  readonly usd: string;
  /** Exact and therefore with decimals; only the sum of a fee is rounded, up. */
  readonly credits: string;
}

interface Rate {
  readonly price: keyof FlatTexts;
  /** The prices that count where this one is not set, first to last. */
  readonly fallbacks?: readonly (keyof FlatTexts)[];
  readonly per: number;
  amount(usage: Usage, units: Units): number;
  cost(price: NanoUsd, amount: number): FemtoUsd;
}

const byUnit = { per: 1, cost: perUnit };
const byMillion = { per: 1_000_000, cost: perMillion };
const byMinute = {
  per: 60,
  cost: (price: NanoUsd, seconds: number) => perMinute(price, seconds * 1_000),
};
const likeInput = { fallbacks: ['prompt'], ...byMillion } as const;

const tokenRates: readonly Rate[] = [
  { price: 'prompt', ...byMillion, amount: (usage) => usage.inputTokens },
  { price: 'audio', ...likeInput, amount: (usage) => usage.inputAudioTokens ?? 0 },
  { price: 'cache_read', ...likeInput, amount: (usage) => usage.cacheReadTokens },
  { price: 'cache_write', ...likeInput, amount: (usage) => usage.cacheWriteTokens },
  {
    price: 'cache_write_1h',
    fallbacks: ['cache_write', 'prompt'],
    ...byMillion,
    amount: (usage) => usage.cacheWrite1hTokens ?? 0,
  },
  { price: 'completion', ...byMillion, amount: (usage) => usage.outputTokens },
];

/** Rates that do not depend on the length of a prompt. */
const unitRates: readonly Rate[] = [
  { price: 'image', ...byUnit, amount: (_, { inputImages = 0 }) => inputImages },
  { price: 'output_image', ...byUnit, amount: (_, { outputImages = 0 }) => outputImages },
  { price: 'characters', ...byMillion, amount: (_, { characters = 0 }) => characters },
  { price: 'bytes', ...byMillion, amount: (_, { bytes = 0 }) => bytes },
  { price: 'minute', ...byMinute, amount: (_, { audioMs = 0 }) => audioMs / 1_000 },
  { price: 'request', ...byUnit, amount: () => 1 },
];

/** The prices of a bill; where several calls had different ones, the prices of the longest call. */
function pricesUsed({ prices: list, usage, units = noUnits }: RequestRecord): {
  readonly texts: FlatTexts | null;
  readonly aboveTokens: number | null;
} {
  if (list === null) return { texts: null, aboveTokens: null };
  const { calls = [usage] } = units;
  return textsFor(list, Math.max(...calls.map(promptTokens)));
}

/** Quantities times prices at the list price. What was not used, or has no price, is no line. */
function linesOf(record: RequestRecord, creditsPerUsd: number): ReceiptLine[] {
  const { prices: list, usage, units = noUnits } = record;
  if (list === null) return [];
  const lines = (rates: readonly Rate[], texts: FlatTexts, used: Usage): ReceiptLine[] =>
    rates.flatMap(({ price, fallbacks = [], per, amount, cost }) => {
      const usd = [price, ...fallbacks]
        .map((name) => texts[name])
        .find((text) => text !== undefined);
      const quantity = amount(used, units);
      if (usd === undefined || quantity === 0) return [];
      const credits = decimalOf(cost(parseUsd(usd) ?? 0n, quantity) * BigInt(creditsPerUsd));
      return [{ price, quantity, per, usd, credits }];
    });
  const tokenLines = usageByPrice(list, usage, units).flatMap(({ texts, used }) =>
    lines(tokenRates, texts, used),
  );
  return [...tokenLines, ...lines(unitRates, textsFor(list, 0).texts, usage)];
}

/** What was used at each of the prices, shortest prompts first. */
function usageByPrice(list: PriceTexts, usage: Usage, { calls = [usage] }: Units) {
  const byStep = new Map<number, { texts: FlatTexts; used: Usage }>();
  for (const call of calls) {
    const { texts, aboveTokens } = textsFor(list, promptTokens(call));
    const step = aboveTokens ?? 0;
    const group = byStep.get(step);
    byStep.set(step, { texts, used: group ? addUsage(group.used, call) : call });
  }
  return [...byStep].sort(([a], [b]) => a - b).map(([, group]) => group);
}

/** All lines of a bill added up, and the rounding that makes whole credits of the sum. */
export function sumLines(lines: readonly ReceiptLine[]) {
  const exact = sumOf(lines);
  const due = roundedUp(exact, femtoPerUnit);
  return { exact: decimalOf(exact), roundedUpBy: decimalOf(due * femtoPerUnit - exact) };
}

/** What the lines come to in whole credits, less what was charged for them. */
function notChargedOf(record: RequestRecord, lines: readonly ReceiptLine[]): number {
  const { trafficMode, charges, prices } = record;
  const isOwn = trafficMode === 'byok';
  const basisPoints = isOwn ? BigInt(prices?.byok_fee_basis_points ?? 0) : 10_000n;
  const due = roundedUp(sumOf(lines) * basisPoints, femtoPerUnit * 10_000n);
  return Number(due) - (isOwn ? charges.byokPlatformFee : charges.modelCharge);
}

function sumOf(lines: readonly ReceiptLine[]): bigint {
  return lines.reduce((sum, { credits }) => sum + femtoOf(credits), 0n);
}

function roundedUp(amount: bigint, unit: bigint): bigint {
  return (amount + unit - 1n) / unit;
}

/** `14.2` from its femto-parts, and back. */
function decimalOf(femto: bigint): string {
  return formatDecimal(femto, 15);
}

function femtoOf(decimal: string): bigint {
  const [integer = '', decimals = ''] = decimal.split('.');
  return BigInt(integer + decimals.padEnd(15, '0'));
}

/** The symbols of docs/errors.md, for somebody who never read it. */
const explanations: Readonly<Record<string, string>> = {
  invalid_request_error: 'The request itself was refused: repeating it does not help.',
  invalid_api_key: 'Its key was not accepted.',
  insufficient_credits:
    'There were not enough credits for it: in the wallet, or within the limit of its key.',
  forbidden: 'Its key may not do this.',
  model_capability_mismatch: 'The model cannot do what was asked of it.',
  rate_limit_exceeded: 'There were too many requests at that time.',
  upstream_error: 'No provider gave a usable answer.',
  service_unavailable: 'Nobody was there to answer it at that time.',
  internal_error: 'Something broke in the gateway.',
} satisfies Record<ErrorSymbol, string>;

/** Errors of answers that had begun, by the provider, or by us: the store is away, or we stop. */
const interruptionErrors: ReadonlySet<string> = new Set<ErrorSymbol>([
  'upstream_error',
  'service_unavailable',
]);

/** Why a request failed, in one sentence; null when it did not. */
function failureOf({ error, refusal, attempts, charges }: RequestRecord): string | null {
  if (error === null) return null;
  if (interruptionErrors.has(error) && attempts.at(-1)?.outcome === 'answered') {
    return totalCharge(charges) > 0
      ? 'The answer broke off. What had come by then is charged.'
      : 'The answer broke off. Nothing is charged for it.';
  }
  return refusal ?? explanations[error] ?? 'It failed.';
}
