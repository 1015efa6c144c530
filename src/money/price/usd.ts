/**
 * Exact money arithmetic. Prices are decimal strings in dollars. Amounts are whole units of 10⁻¹⁹
 * dollars as `bigint`, so that a price per million units times any quantity is exact. Each fee is
 * rounded up to whole credits, only once.
 */

/**
 * Dollars × 10¹³, the unit of prices. List prices have 9 decimals, and a plan's factor has 4, so
 * that their product is exact.
 */
export type UsdPrice = bigint;
/** Dollars × 10¹⁹, the unit of amounts before they are rounded to credits. */
export type UsdAmount = bigint;

const priceDecimals = 13;
export const amountDecimals = 19;

const amountPerPrice = 1_000_000n;
const amountPerUsd = 10_000_000_000_000_000_000n;
/** Added before a division by `amountPerUsd` to round up. */
const roundUpUsd = amountPerUsd - 1n;
/** One basis point is 0.01%. */
const basisPointsPerUnit = 10_000n;

/**
 * Parses a price: `"0.0375"` becomes 375,000,000,000n. Returns undefined if it has more than 13
 * decimals.
 */
export function parseUsd(text: string): UsdPrice | undefined {
  const match = /^(\d{1,12})(?:\.(\d{1,13}))?$/.exec(text);
  if (!match) return undefined;
  const decimals = (match[2] ?? '').padEnd(priceDecimals, '0');
  return BigInt(match[1] ?? '0') * 10_000_000_000_000n + BigInt(decimals);
}

/** Formats a price: 375,000,000,000n becomes `"0.0375"`. */
export function formatUsd(price: UsdPrice): string {
  return formatDecimal(price, priceDecimals);
}

/** Formats `scaled` / 10^`decimals` without trailing zeros. */
export function formatDecimal(scaled: bigint, decimals: number): string {
  const digits = scaled.toString().padStart(decimals + 1, '0');
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`.replace(/\.?0+$/, '');
}

/** Returns the exact cost of `quantity` units at a price per million units. */
export function perMillion(price: UsdPrice, quantity: number): UsdAmount {
  if (quantity === 0 || price === 0n) return 0n;
  // The price of a million units, in units of prices, is that of one, in units of amounts.
  return price * BigInt(quantity);
}

/** Returns the exact cost of `quantity` units at a price per unit. */
export function perUnit(price: UsdPrice, quantity: number): UsdAmount {
  if (quantity === 0 || price === 0n) return 0n;
  return price * BigInt(quantity) * amountPerPrice;
}

const nsPerMs = 1_000_000;
const nsPerMinute = 60_000_000_000n;

/**
 * Returns the cost of audio at a price per minute. Durations are rounded to nanoseconds, because
 * providers report seconds such as 8.470000267028809. The result is rounded up to 10⁻¹⁹ dollars.
 */
export function perMinute(price: UsdPrice, ms: number): UsdAmount {
  if (ms === 0 || price === 0n) return 0n;
  const ns = BigInt(Math.round(ms * nsPerMs));
  return (price * ns * amountPerPrice + nsPerMinute - 1n) / nsPerMinute;
}

/** Rounds an amount up to whole credits. */
export function toCredits(amount: UsdAmount, creditsPerUsd: number): number {
  if (amount === 0n) return 0;
  return Number((amount * rateAsBigint(creditsPerUsd) + roundUpUsd) / amountPerUsd);
}

let lastRate = { creditsPerUsd: 0, value: 0n };

/** Caches the converted rate, because a process uses only one. */
function rateAsBigint(creditsPerUsd: number): bigint {
  if (lastRate.creditsPerUsd !== creditsPerUsd) {
    lastRate = { creditsPerUsd, value: BigInt(creditsPerUsd) };
  }
  return lastRate.value;
}

/**
 * Returns a fee that is a share of an amount, rounded up to whole credits. Takes the exact amount,
 * because a share of rounded credits would be rounded twice.
 */
export function feeToCredits(
  amount: UsdAmount,
  basisPoints: number,
  creditsPerUsd: number,
): number {
  const divisor = amountPerUsd * basisPointsPerUnit;
  const fee = amount * BigInt(basisPoints) * rateAsBigint(creditsPerUsd);
  return Number((fee + divisor - 1n) / divisor);
}
