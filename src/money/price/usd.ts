/**
 * Exact money arithmetic. Prices are decimal strings in dollars. Amounts are whole femto-dollars
 * (10⁻¹⁵) as `bigint`, so that a price per million units times any quantity is exact. Each fee is
 * rounded up to whole credits, only once.
 */

/** Dollars × 10⁹, the unit of prices. */
export type NanoUsd = bigint;
/** Dollars × 10¹⁵, the unit of amounts before they are rounded to credits. */
export type FemtoUsd = bigint;

const femtoPerNano = 1_000_000n;
const femtoPerUsd = 1_000_000_000_000_000n;
/** Added before a division by `femtoPerUsd` to round up. */
const roundUpUsd = femtoPerUsd - 1n;
/** One basis point is 0.01%. */
const basisPointsPerUnit = 10_000n;

/**
 * Parses a price: `"0.0375"` becomes 37,500,000n. Returns undefined if it has more than 9 decimals.
 */
export function parseUsd(text: string): NanoUsd | undefined {
  const match = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(text);
  if (!match) return undefined;
  return BigInt(match[1] ?? '0') * 1_000_000_000n + BigInt((match[2] ?? '').padEnd(9, '0'));
}

/** Formats a price: 37,500,000n becomes `"0.0375"`. */
export function formatUsd(price: NanoUsd): string {
  return formatDecimal(price, 9);
}

/** Formats `scaled` / 10^`decimals` without trailing zeros. */
export function formatDecimal(scaled: bigint, decimals: number): string {
  const digits = scaled.toString().padStart(decimals + 1, '0');
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`.replace(/\.?0+$/, '');
}

/** Returns the exact cost of `quantity` units at a price per million units. */
export function perMillion(price: NanoUsd, quantity: number): FemtoUsd {
  if (quantity === 0 || price === 0n) return 0n;
  // Nano-dollars per million units equal femto-dollars per unit.
  return price * BigInt(quantity);
}

/** Returns the exact cost of `quantity` units at a price per unit. */
export function perUnit(price: NanoUsd, quantity: number): FemtoUsd {
  if (quantity === 0 || price === 0n) return 0n;
  return price * BigInt(quantity) * femtoPerNano;
}

const nsPerMs = 1_000_000;
const nsPerMinute = 60_000_000_000n;

/**
 * Returns the cost of audio at a price per minute. Durations are rounded to nanoseconds, because
 * providers report seconds such as 8.470000267028809. The result is rounded up to a femto-dollar.
 */
export function perMinute(price: NanoUsd, ms: number): FemtoUsd {
  if (ms === 0 || price === 0n) return 0n;
  const ns = BigInt(Math.round(ms * nsPerMs));
  return (price * ns * femtoPerNano + nsPerMinute - 1n) / nsPerMinute;
}

/** Rounds an amount up to whole credits. */
export function toCredits(amount: FemtoUsd, creditsPerUsd: number): number {
  if (amount === 0n) return 0;
  return Number((amount * rateAsBigint(creditsPerUsd) + roundUpUsd) / femtoPerUsd);
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
export function feeToCredits(amount: FemtoUsd, basisPoints: number, creditsPerUsd: number): number {
  const divisor = femtoPerUsd * basisPointsPerUnit;
  const fee = amount * BigInt(basisPoints) * rateAsBigint(creditsPerUsd);
  return Number((fee + divisor - 1n) / divisor);
}
