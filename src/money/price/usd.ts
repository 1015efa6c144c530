/**
 * Money is counted, never measured. Prices are decimal strings of dollars; amounts are whole
 * femto-dollars (10⁻¹⁵) as `bigint`, fine enough that a price per million of anything, times any
 * quantity, is exact. So there is one rounding in the life of a fee: up, to whole credits.
 */

/** Dollars × 10⁹: what a price list is kept in. */
export type NanoUsd = bigint;
/** Dollars × 10¹⁵: what sums are kept in until they are rounded. */
export type FemtoUsd = bigint;

const femtoPerNano = 1_000_000n;
const femtoPerUsd = 1_000_000_000_000_000n;
/** Added before a division by dollars, it rounds up. */
const roundUpUsd = femtoPerUsd - 1n;
/** A basis point is a hundredth of a percent. */
const basisPointsPerUnit = 10_000n;

/** `"0.0375"` becomes 37,500,000n. More than nine decimals is finer than we count: undefined. */
export function parseUsd(text: string): NanoUsd | undefined {
  const match = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(text);
  if (!match) return undefined;
  return BigInt(match[1] ?? '0') * 1_000_000_000n + BigInt((match[2] ?? '').padEnd(9, '0'));
}

/** Writes a price back the way people quote it: 37,500,000n becomes `"0.0375"`. */
export function formatUsd(price: NanoUsd): string {
  return formatDecimal(price, 9);
}

/** A decimal number from its parts, of which ten to the power of `places` make a whole. */
export function formatDecimal(scaled: bigint, decimals: number): string {
  const digits = scaled.toString().padStart(decimals + 1, '0');
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`.replace(/\.?0+$/, '');
}

/** What `quantity` units cost at a price quoted per million of them. Exact. */
export function perMillion(price: NanoUsd, quantity: number): FemtoUsd {
  if (quantity === 0 || price === 0n) return 0n;
  // Nano-dollars per million units are femto-dollars per unit.
  return price * BigInt(quantity);
}

/** What `quantity` units cost at a price quoted for each. Exact. */
export function perUnit(price: NanoUsd, quantity: number): FemtoUsd {
  if (quantity === 0 || price === 0n) return 0n;
  return price * BigInt(quantity) * femtoPerNano;
}

const nsPerMs = 1_000_000;
const nsPerMinute = 60_000_000_000n;

/**
 * What audio costs at a price for each minute, to the nanosecond: providers tell lengths such as
 * 8.470000267028809 seconds, and what is over a whole credit counts. A third of a nanosecond's
 * price is no whole number of femto-dollars: the remainder counts as one, which no credit notices.
 */
export function perMinute(price: NanoUsd, ms: number): FemtoUsd {
  if (ms === 0 || price === 0n) return 0n;
  const ns = BigInt(Math.round(ms * nsPerMs));
  return (price * ns * femtoPerNano + nsPerMinute - 1n) / nsPerMinute;
}

/** The one rounding of a fee line: up, to the next whole credit. */
export function toCredits(amount: FemtoUsd, creditsPerUsd: number): number {
  if (amount === 0n) return 0;
  return Number((amount * rateAsBigint(creditsPerUsd) + roundUpUsd) / femtoPerUsd);
}

let lastRate = { creditsPerUsd: 0, value: 0n };

/** A process has one rate: it is converted once, not for every fee. */
function rateAsBigint(creditsPerUsd: number): bigint {
  if (lastRate.creditsPerUsd !== creditsPerUsd) {
    lastRate = { creditsPerUsd, value: BigInt(creditsPerUsd) };
  }
  return lastRate.value;
}

/**
 * Like `toCredits`, for a fee that is a share of a price. Rounded once and of the exact price: a
 * share of the rounded one would be rounded twice.
 */
export function feeToCredits(amount: FemtoUsd, basisPoints: number, creditsPerUsd: number): number {
  const divisor = femtoPerUsd * basisPointsPerUnit;
  const fee = amount * BigInt(basisPoints) * rateAsBigint(creditsPerUsd);
  return Number((fee + divisor - 1n) / divisor);
}
