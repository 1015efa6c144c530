import {
  decimal,
  type FemtoUsd,
  type NanoUsd,
  parseUsd,
  perMillion,
  perMinute,
  perUnit,
} from '../core/money.ts';
import { type FlatTexts, type PriceTexts, textsFor } from '../core/prices.ts';
import { addUsage, noUnits, promptTokens, type Units, type Usage } from '../core/usage.ts';
import type { RequestRecord } from './request-record.ts';

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
  readonly instead?: readonly (keyof FlatTexts)[];
  readonly per: number;
  amount(usage: Usage, units: Units): number;
  cost(price: NanoUsd, amount: number): FemtoUsd;
}

const perOne = { per: 1, cost: perUnit };
const ofMillion = { per: 1_000_000, cost: perMillion };
const ofMinute = {
  per: 60,
  cost: (price: NanoUsd, seconds: number) => perMinute(price, seconds * 1_000),
};
const asInput = { instead: ['prompt'], ...ofMillion } as const;

const tokenRates: readonly Rate[] = [
  { price: 'prompt', ...ofMillion, amount: (usage) => usage.inputTokens },
  { price: 'audio', ...asInput, amount: (usage) => usage.inputAudioTokens ?? 0 },
  { price: 'cache_read', ...asInput, amount: (usage) => usage.cacheReadTokens },
  { price: 'cache_write', ...asInput, amount: (usage) => usage.cacheWriteTokens },
  {
    price: 'cache_write_1h',
    instead: ['cache_write', 'prompt'],
    ...ofMillion,
    amount: (usage) => usage.cacheWrite1hTokens ?? 0,
  },
  { price: 'completion', ...ofMillion, amount: (usage) => usage.outputTokens },
];

/** Rates that do not depend on the length of a prompt. */
const unitRates: readonly Rate[] = [
  { price: 'image', ...perOne, amount: (_, { inputImages = 0 }) => inputImages },
  { price: 'output_image', ...perOne, amount: (_, { outputImages = 0 }) => outputImages },
  { price: 'characters', ...ofMillion, amount: (_, { characters = 0 }) => characters },
  { price: 'bytes', ...ofMillion, amount: (_, { bytes = 0 }) => bytes },
  { price: 'minute', ...ofMinute, amount: (_, { audioMs = 0 }) => audioMs / 1_000 },
  { price: 'request', ...perOne, amount: () => 1 },
];

/** The prices of a bill; where several calls had different ones, the prices of the longest call. */
export function pricesUsed({ prices: list, usage, units = noUnits }: RequestRecord): {
  readonly texts: FlatTexts | null;
  readonly aboveTokens: number | null;
} {
  if (list === null) return { texts: null, aboveTokens: null };
  const { calls = [usage] } = units;
  return textsFor(list, Math.max(...calls.map(promptTokens)));
}

/** Quantities times prices at the list price. What was not used, or has no price, is no line. */
export function linesOf(record: RequestRecord, creditsPerUsd: number): ReceiptLine[] {
  const { prices: list, usage, units = noUnits } = record;
  if (list === null) return [];
  const lines = (rates: readonly Rate[], texts: FlatTexts, used: Usage): ReceiptLine[] =>
    rates.flatMap(({ price, instead = [], per, amount, cost }) => {
      const usd = [price, ...instead].map((name) => texts[name]).find((text) => text !== undefined);
      const quantity = amount(used, units);
      if (usd === undefined || quantity === 0) return [];
      const credits = decimalOf(cost(parseUsd(usd) ?? 0n, quantity) * BigInt(creditsPerUsd));
      return [{ price, quantity, per, usd, credits }];
    });
  const tokenLines = shares(list, usage, units).flatMap(({ texts, used }) =>
    lines(tokenRates, texts, used),
  );
  return [...tokenLines, ...lines(unitRates, textsFor(list, 0).texts, usage)];
}

/** What was used at each of the prices, shortest prompts first. */
function shares(list: PriceTexts, usage: Usage, { calls = [usage] }: Units) {
  const byStep = new Map<number, { texts: FlatTexts; used: Usage }>();
  for (const call of calls) {
    const { texts, aboveTokens } = textsFor(list, promptTokens(call));
    const step = aboveTokens ?? 0;
    const share = byStep.get(step);
    byStep.set(step, { texts, used: share ? addUsage(share.used, call) : call });
  }
  return [...byStep].sort(([a], [b]) => a - b).map(([, share]) => share);
}

/** All lines of a bill added up, and the rounding that makes whole credits of the sum. */
export function reckon(lines: readonly ReceiptLine[]) {
  const exact = sumOf(lines);
  const due = roundedUp(exact, femtoPerUnit);
  return { exact: decimalOf(exact), roundedUpBy: decimalOf(due * femtoPerUnit - exact) };
}

/** What the lines come to in whole credits, less what was charged for them. */
export function notChargedOf(record: RequestRecord, lines: readonly ReceiptLine[]): number {
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
  return decimal(femto, 15);
}

function femtoOf(decimal: string): bigint {
  const [whole = '', decimals = ''] = decimal.split('.');
  return BigInt(whole + decimals.padEnd(15, '0'));
}
