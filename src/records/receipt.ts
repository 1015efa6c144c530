import type {
  AttemptObject,
  MarginObject,
  ReceiptLineObject,
  ReceiptObject,
  ReceiptTokensObject,
} from '../contract/receipt.ts';
import type { ErrorSymbol } from '../core/errors.ts';
import { definedFields } from '../core/json.ts';
import {
  addUsage,
  noUnits,
  promptTokens,
  totalTokens,
  type Units,
  type Usage,
} from '../core/usage.ts';
import { feesOf, pricedFee, totalCharge } from '../money/price/fee-kinds.ts';
import { priceOf, priceStringOf, tokenPrices, unitPrices } from '../money/price/price-classes.ts';
import {
  type FlatPriceStrings,
  type PriceStrings,
  priceStringsFor,
} from '../money/price/price-list.ts';
import { amountDecimals, formatDecimal, parseUsd } from '../money/price/usd.ts';
import { isoTime } from './period.ts';
import type { AttemptRecord, RequestRecord } from './request-record.ts';

/** Builds the receipt of one request: usage, prices, and charges. */

export function receiptObject(record: RequestRecord, creditsPerUsd: number): ReceiptObject {
  const { priceStrings, aboveTokens } = pricesUsed(record);
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
    outcome: outcomeOf(record),
    failure: failureOf(record),
    traffic_mode: record.trafficMode,
    tokens: tokensOf(record.usage),
    usage_estimated: record.usageEstimated,
    lines,
    prices: priceStrings,
    prices_from: record.pricedFrom === undefined ? null : isoTime(record.pricedFrom),
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

/**
 * Error messages with these outcomes are shown only to the owner of the provider key: they may
 * reveal what the account owes, or an internal host name. Errors to clients omit them, too.
 */
const ownerOnlyOutcomes: ReadonlySet<string> = new Set(['credential', 'quota', 'malformed']);

function redactAttempts(attempts: readonly AttemptRecord[]): readonly AttemptObject[] {
  return attempts.map((attempt) => {
    const isHidden = ownerOnlyOutcomes.has(attempt.outcome) && !attempt.own_account;
    const { key: _, ...visible } = attemptObject(attempt);
    return { ...visible, ...(isHidden ? { message: null } : {}) };
  });
}

export interface OperatorAttempt extends AttemptObject {
  /** The name of the provider's key, if it has several. */
  readonly key?: string;
}

/** Returns an attempt with its key and the provider's full error message. */
function attemptObject(attempt: AttemptRecord): OperatorAttempt {
  const { provider, key, model, own_account, dropped, ...rest } = attempt;
  const { ms, outcome, status, message } = rest;
  return {
    provider,
    model,
    ...definedFields({ key, own_account, dropped }),
    ms,
    outcome,
    status,
    message,
  };
}

/** `prompt` is the sum of the classes before it. `completion` includes `reasoning`. */
function tokensOf(usage: Usage): ReceiptTokensObject {
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

const unitsPerCredit = 10n ** BigInt(amountDecimals);

/**
 * Returns the prices of a request. If it made several calls, returns those for the longest prompt.
 */
function pricesUsed({ prices: list, usage, units = noUnits }: RequestRecord): {
  readonly priceStrings: FlatPriceStrings | null;
  readonly aboveTokens: number | null;
} {
  if (list === null) return { priceStrings: null, aboveTokens: null };
  const { calls = [usage] } = units;
  return priceStringsFor(list, Math.max(...calls.map(promptTokens)));
}

/** Multiplies quantities by list prices. Unused and unpriced quantities have no line. */
function linesOf(record: RequestRecord, creditsPerUsd: number): ReceiptLineObject[] {
  const { prices: list, usage, units = noUnits } = record;
  if (list === null) return [];
  const linesAt = (classes: typeof tokenPrices, priceStrings: FlatPriceStrings, used: Usage) =>
    classes.flatMap(({ name, per, quantity: quantityOf }): readonly ReceiptLineObject[] => {
      const usd = priceStringOf(priceStrings, name);
      const quantity = quantityOf(used, units);
      if (usd === undefined || quantity === 0) return [];
      const cost = priceOf(per, parseUsd(usd) ?? 0n, quantity);
      const credits = decimalOf(cost * BigInt(creditsPerUsd));
      return [{ price: name, quantity, per, usd, credits }];
    });
  const tokenLines = usageByPrice(list, usage, units).flatMap(({ priceStrings, used }) =>
    linesAt(tokenPrices, priceStrings, used),
  );
  return [...tokenLines, ...linesAt(unitPrices, priceStringsFor(list, 0).priceStrings, usage)];
}

/** Groups the usage by price, shortest prompts first. */
function usageByPrice(list: PriceStrings, usage: Usage, { calls = [usage] }: Units) {
  const byTier = new Map<number, { priceStrings: FlatPriceStrings; used: Usage }>();
  for (const call of calls) {
    const { priceStrings, aboveTokens } = priceStringsFor(list, promptTokens(call));
    const tier = aboveTokens ?? 0;
    const group = byTier.get(tier);
    byTier.set(tier, { priceStrings, used: group ? addUsage(group.used, call) : call });
  }
  return [...byTier].sort(([a], [b]) => a - b).map(([, group]) => group);
}

/** Returns a receipt with what only operators see. */
export function operatorReceipt(record: RequestRecord, creditsPerUsd: number) {
  return {
    ...receiptObject(record, creditsPerUsd),
    attempts: record.attempts.map(attemptObject),
    margin: marginObject(record, creditsPerUsd),
  };
}

/** Returns what a plan added to the list price. Only operators see it. Null without a plan. */
export function marginObject(record: RequestRecord, creditsPerUsd: number): MarginObject | null {
  const { margin } = record;
  if (!margin) return null;
  const atList = { ...record, prices: margin.list };
  const list = sumOf(linesOf(atList, creditsPerUsd));
  const charge = sumOf(linesOf(record, creditsPerUsd));
  const difference = charge - list;
  const sign = difference < 0n ? '-' : '';
  return {
    plan: margin.plan,
    factor_basis_points: margin.factorBasisPoints,
    surcharge: margin.surcharge,
    list_prices: pricesUsed(atList).priceStrings ?? {},
    list: decimalOf(list),
    margin: `${sign}${decimalOf(difference < 0n ? -difference : difference)}`,
    charge: decimalOf(charge),
  };
}

/** Adds up the lines of a receipt, and computes by how much the sum is rounded up. */
export function sumLines(lines: readonly ReceiptLineObject[]) {
  const exact = sumOf(lines);
  const due = roundedUp(exact, unitsPerCredit);
  return { exact: decimalOf(exact), roundedUpBy: decimalOf(due * unitsPerCredit - exact) };
}

/** Returns the sum of the lines in whole credits, minus the amount that was charged. */
function notChargedOf(record: RequestRecord, lines: readonly ReceiptLineObject[]): number {
  const { trafficMode, charges, prices } = record;
  const isOwn = trafficMode === 'byok';
  const basisPoints = isOwn ? BigInt(prices?.byok_fee_basis_points ?? 0) : 10_000n;
  const due = roundedUp(sumOf(lines) * basisPoints, unitsPerCredit * 10_000n);
  return Number(due) - charges[pricedFee[trafficMode]];
}

function sumOf(lines: readonly ReceiptLineObject[]): bigint {
  return lines.reduce((sum, { credits }) => sum + exactOf(credits), 0n);
}

function roundedUp(amount: bigint, unit: bigint): bigint {
  return (amount + unit - 1n) / unit;
}

/** Formats an exact number of credits such as `14.2`; `exactOf` is the inverse. */
function decimalOf(exact: bigint): string {
  return formatDecimal(exact, amountDecimals);
}

function exactOf(decimal: string): bigint {
  const [integer = '', decimals = ''] = decimal.split('.');
  return BigInt(integer + decimals.padEnd(amountDecimals, '0'));
}

/** A sentence for each error type in docs/errors.md. */
const explanations: Readonly<Record<string, string>> = {
  invalid_request_error: 'The request is invalid. Change it before you send it again.',
  invalid_api_key: 'The API key was rejected.',
  insufficient_credits: 'The wallet, or the limit of the key, had too few credits.',
  forbidden: 'The API key may not do this.',
  model_capability_mismatch: "The model doesn't support what the request needs.",
  rate_limit_exceeded: 'Too many requests were sent at that time.',
  upstream_error: 'No provider returned a usable answer.',
  service_unavailable: 'The gateway or the provider was unavailable at that time.',
  internal_error: 'An internal error occurred in the gateway.',
} satisfies Record<ErrorSymbol, string>;

/** Errors that can end an answer after it has started. */
const interruptionErrors: ReadonlySet<string> = new Set<ErrorSymbol>([
  'upstream_error',
  'service_unavailable',
]);

/**
 * Returns how the answer ended. An interrupted answer had started, so its stream ended with an
 * error event and an unfinished transfer.
 */
function outcomeOf({ error, cancelled, attempts }: RequestRecord): ReceiptObject['outcome'] {
  if (cancelled) return 'canceled';
  if (error === null) return 'complete';
  return attempts.at(-1)?.outcome === 'answered' ? 'interrupted' : 'failed';
}

/** Returns why a request failed, in one or two sentences, or null if it succeeded. */
function failureOf({ error, refusal, attempts, charges }: RequestRecord): string | null {
  if (error === null) return null;
  if (interruptionErrors.has(error) && attempts.at(-1)?.outcome === 'answered') {
    return totalCharge(charges) > 0
      ? 'The answer was cut off. The part that was received is charged.'
      : 'The answer was cut off. Nothing is charged.';
  }
  return refusal ?? explanations[error] ?? 'The request failed.';
}
