import type { JsonObject } from '../../core/json.ts';

// Prices in public lists are JSON numbers such as 1.5e-07. They are read from the text, because
// floating-point numbers aren't exact.

/** Parses JSON, with each number as the text that the file has. Throws if it isn't JSON. */
export function parseExactJson(text: string): unknown {
  return JSON.parse(text, exactNumber);
}

function exactNumber(_name: string, value: unknown, context?: { readonly source?: string }) {
  return typeof value === 'number' ? (context?.source ?? String(value)) : value;
}

const numberPattern = /^(-?)(\d{1,40})(?:\.(\d{1,40}))?(?:[eE]([+-]?\d{1,3}))?$/;

interface Decimal {
  readonly isNegative: boolean;
  readonly digits: bigint;
  /** The power of ten by which the digits are divided. */
  readonly decimals: number;
}

function readDecimal(text: string): Decimal | undefined {
  const match = numberPattern.exec(text);
  if (!match) return undefined;
  const [, sign, integer = '', fraction = '', exponent = '0'] = match;
  return {
    isNegative: sign === '-',
    digits: BigInt(integer + fraction),
    decimals: fraction.length - Number(exponent),
  };
}

/** A price as the configuration has it, or why it can't have it, as a phrase after the price. */
export type ReadPrice = { readonly price: string } | { readonly problem: string };

/** Prices in the configuration have as many digits before and after the decimal point. */
const digitsMax = 9;

/** Reads a price for `factor` units, such as 1,000,000 for a price per token. */
export function readExactPrice(value: unknown, factor: number): ReadPrice {
  const decimal = typeof value === 'string' ? readDecimal(value) : undefined;
  if (!decimal) return { problem: 'is not a number' };
  if (decimal.isNegative && decimal.digits !== 0n) return { problem: 'is negative' };
  let digits = decimal.digits * BigInt(factor);
  let { decimals } = decimal;
  while (decimals > 0 && digits % 10n === 0n) {
    digits /= 10n;
    decimals -= 1;
  }
  if (digits === 0n) return { price: '0' };
  if (decimals > digitsMax) return { problem: `has more than ${digitsMax} decimals` };
  if (decimals < 0) {
    digits *= 10n ** BigInt(-decimals);
    decimals = 0;
  }
  const padded = digits.toString().padStart(decimals + 1, '0');
  const integer = padded.slice(0, padded.length - decimals);
  if (integer.length > digitsMax) return { problem: 'is too high' };
  return { price: decimals === 0 ? integer : `${integer}.${padded.slice(-decimals)}` };
}

/** Reads a number of tokens, such as 128000 or 1e6. Returns undefined for anything else. */
export function readTokens(value: unknown): number | undefined {
  const decimal = typeof value === 'string' ? readDecimal(value) : undefined;
  if (!decimal || decimal.isNegative || Math.abs(decimal.decimals) > digitsMax) return undefined;
  const { digits, decimals } = decimal;
  const tokens =
    decimals > 0 ? digits / 10n ** BigInt(decimals) : digits * 10n ** BigInt(-decimals);
  return tokens > 0n && tokens <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(tokens) : undefined;
}

/** Returns a boolean field. Undefined if the list doesn't say. */
export function readFlag(entry: JsonObject, field: string): boolean | undefined {
  const value = entry[field];
  return typeof value === 'boolean' ? value : undefined;
}
