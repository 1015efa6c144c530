import { type FemtoUsd, perMillion, perMinute, perUnit } from '../core/money.ts';
import { type Prices, readPrices } from '../core/prices.ts';
import { noUnits, promptTokens, totalTokens, type Units, type Usage } from '../core/usage.ts';
import { isoTime } from './period.ts';
import { type Charges, type RequestRecord, totalCharge } from './request-record.ts';

/** Everything that is known of one request, so that nobody has to take its charge on trust. */

const femtoPerUsd = 1_000_000_000_000_000n;

export function receiptObject(record: RequestRecord, creditsPerUsd: number) {
  return {
    request_id: record.requestId,
    api_key_id: record.keyId,
    operation: record.operation,
    model: record.requestedModel,
    answered_by: { model: record.model, provider: record.provider },
    status: record.status,
    error: record.error,
    traffic_mode: record.trafficMode,
    tokens: tokensOf(record.usage),
    usage_estimated: record.usageEstimated,
    lines: linesOf(record, creditsPerUsd),
    prices: record.prices,
    cost: totalCharge(record.charges),
    cost_breakdown: breakdownOf(record.charges),
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
    attempts: record.attempts,
    created_at: isoTime(record.createdAt),
    generation_url: `/v1/generation?id=${record.requestId}`,
  };
}

/** The classes do not overlap, except that reasoning is part of the output. */
function tokensOf(usage: Usage) {
  return {
    input: usage.inputTokens,
    cache_read: usage.cacheReadTokens,
    cache_write: usage.cacheWriteTokens,
    prompt: promptTokens(usage),
    completion: usage.outputTokens,
    reasoning: usage.reasoningTokens,
    total: totalTokens(usage),
  };
}

function breakdownOf(charges: Charges) {
  return {
    model_charge: charges.modelCharge,
    byok_platform_fee: charges.byokPlatformFee,
    managed_tool_fee: charges.managedToolFee,
    agent_runtime_fee: charges.agentRuntimeFee,
    total_charge: totalCharge(charges),
  };
}

interface Line {
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
  readonly price: string;
  /** The price that counts where this one is not set. */
  readonly instead?: string;
  readonly per: number;
  amount(usage: Usage, units: Units): number;
  cost(prices: Prices, amount: number): FemtoUsd;
}

const million = 1_000_000;

const rates: readonly Rate[] = [
  {
    price: 'prompt',
    per: million,
    amount: (usage) => usage.inputTokens,
    cost: (prices, tokens) => perMillion(prices.prompt, tokens),
  },
  {
    price: 'cache_read',
    instead: 'prompt',
    per: million,
    amount: (usage) => usage.cacheReadTokens,
    cost: (prices, tokens) => perMillion(prices.cacheRead, tokens),
  },
  {
    price: 'cache_write',
    instead: 'prompt',
    per: million,
    amount: (usage) => usage.cacheWriteTokens,
    cost: (prices, tokens) => perMillion(prices.cacheWrite, tokens),
  },
  {
    price: 'completion',
    per: million,
    amount: (usage) => usage.outputTokens,
    cost: (prices, tokens) => perMillion(prices.completion, tokens),
  },
  {
    price: 'image',
    per: 1,
    amount: (_, { inputImages = 0 }) => inputImages,
    cost: (prices, images) => perUnit(prices.image, images),
  },
  {
    price: 'output_image',
    per: 1,
    amount: (_, { outputImages = 0 }) => outputImages,
    cost: (prices, images) => perUnit(prices.outputImage, images),
  },
  {
    price: 'characters',
    per: million,
    amount: (_, { characters = 0 }) => characters,
    cost: (prices, characters) => perMillion(prices.characters, characters),
  },
  {
    price: 'bytes',
    per: million,
    amount: (_, { bytes = 0 }) => bytes,
    cost: (prices, bytes) => perMillion(prices.bytes, bytes),
  },
  {
    price: 'minute',
    per: 60,
    amount: (_, { audioMs = 0 }) => audioMs / 1_000,
    cost: (prices, seconds) => perMinute(prices.minute, Math.round(seconds * 1_000)),
  },
  {
    price: 'request',
    per: 1,
    amount: () => 1,
    cost: (prices, requests) => perUnit(prices.request, requests),
  },
];

/** Quantities times prices at the list price. What was not used, or has no price, is no line. */
function linesOf(record: RequestRecord, creditsPerUsd: number): Line[] {
  const { prices: texts, usage, units = noUnits } = record;
  if (texts === null) return [];
  const prices = readPrices(texts);
  return rates.flatMap(({ price, instead = '', per, amount, cost }) => {
    const usd = texts[price] ?? texts[instead];
    const quantity = amount(usage, units);
    if (usd === undefined || quantity === 0) return [];
    return [
      { price, quantity, per, usd, credits: exactCredits(cost(prices, quantity), creditsPerUsd) },
    ];
  });
}

function exactCredits(cost: FemtoUsd, creditsPerUsd: number): string {
  const scaled = cost * BigInt(creditsPerUsd);
  const decimals = (scaled % femtoPerUsd).toString().padStart(15, '0').replace(/0+$/, '');
  return `${scaled / femtoPerUsd}${decimals === '' ? '' : `.${decimals}`}`;
}
