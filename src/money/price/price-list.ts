import {
  mapPrices,
  type PriceName,
  priceNames,
  priceStringOf,
  type TokenPriceName,
} from './price-classes.ts';
import { amountDecimals, formatDecimal, parseUsd, type UsdPrice } from './usd.ts';

/**
 * What an endpoint charges for each price class, parsed once at startup. A price that isn't set is
 * 0.
 */
export type Prices = Readonly<Record<PriceName, UsdPrice>>;

/**
 * Parses prices. An unset price defaults to the price of its fallback in `priceClasses`, or to 0.
 */
export function readPrices(priceStrings: Readonly<Record<string, string | undefined>>): Prices {
  return mapPrices(priceNames, (name) => parseUsd(priceStringOf(priceStrings, name) ?? '0') ?? 0n);
}

/** Formats a price per million tokens as dollars per token, as in the model list's `pricing`. */
export function perToken(perMillion: UsdPrice): string {
  return formatDecimal(perMillion, amountDecimals);
}

/**
 * Prices with tiers for long prompts. Several vendors charge more for the whole request, including
 * its output, if its prompt is longer than a limit.
 */
export interface PriceList extends Prices {
  /** In ascending order of length. Absent if prices don't depend on the prompt's length. */
  readonly longPrompts?: readonly LongPromptPrices[];
}

interface LongPromptPrices {
  readonly aboveTokens: number;
  /** All prices, including those that the tier doesn't change. */
  readonly prices: Prices;
}

/** Prices as decimal strings in dollars, by name. */
export type FlatPriceStrings = Readonly<
  Partial<Record<PriceName | 'byok_fee_basis_points', string>>
>;

type LongPromptPriceStrings = Readonly<Partial<Record<TokenPriceName, string>>> & {
  readonly above_tokens: number;
};

/** Prices with tiers as in the configuration. Also stored with each request's record. */
export type PriceStrings = FlatPriceStrings & {
  readonly long_prompts?: readonly LongPromptPriceStrings[];
};

export function readPriceList({ long_prompts: tiers, ...base }: PriceStrings): PriceList {
  const prices = readPrices(base);
  if (!tiers || tiers.length === 0) return prices;
  const longPrompts = tiers.map(({ above_tokens: aboveTokens }) => ({
    aboveTokens,
    prices: readPrices(priceStringsAbove(base, tiers, aboveTokens)),
  }));
  return { ...prices, longPrompts };
}

/** Returns the prices for a prompt of this length. */
export function pricesFor(list: PriceList, promptTokens: number): Prices {
  let prices: Prices = list;
  for (const tier of list.longPrompts ?? []) {
    if (promptTokens > tier.aboveTokens) prices = tier.prices;
  }
  return prices;
}

/**
 * Returns the price strings for a prompt of this length, and the limit of its tier, or null if it
 * is below all tiers.
 */
export function priceStringsFor(
  { long_prompts: tiers = [], ...base }: PriceStrings,
  promptTokens: number,
): { readonly priceStrings: FlatPriceStrings; readonly aboveTokens: number | null } {
  const reached = tiers.findLast((tier) => promptTokens > tier.above_tokens);
  if (!reached) return { priceStrings: base, aboveTokens: null };
  const aboveTokens = reached.above_tokens;
  return { priceStrings: priceStringsAbove(base, tiers, aboveTokens), aboveTokens };
}

/** A tier lists only the prices that it changes. All others stay as in the tier before it. */
function priceStringsAbove(
  base: FlatPriceStrings,
  tiers: readonly LongPromptPriceStrings[],
  aboveTokens: number,
): FlatPriceStrings {
  let priceStrings = base;
  for (const { above_tokens, ...changed } of tiers) {
    if (above_tokens <= aboveTokens) priceStrings = { ...priceStrings, ...changed };
  }
  return priceStrings;
}
