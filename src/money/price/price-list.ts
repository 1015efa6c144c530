import {
  mapPrices,
  type PriceName,
  priceNames,
  priceTextOf,
  type TokenPriceName,
} from './price-classes.ts';
import { formatDecimal, type NanoUsd, parseUsd } from './usd.ts';

/** What an endpoint charges for each price class, parsed once at startup. 0 where it isn't set. */
export type Prices = Readonly<Record<PriceName, NanoUsd>>;

/** Parses prices. A price that isn't set is that of its fallback in `priceClasses`, or 0. */
export function readPrices(texts: Readonly<Record<string, string | undefined>>): Prices {
  return mapPrices(priceNames, (name) => parseUsd(priceTextOf(texts, name) ?? '0') ?? 0n);
}

/** Formats a price per million tokens as dollars per token, as in the model list's `pricing`. */
export function perToken(perMillion: NanoUsd): string {
  return formatDecimal(perMillion, 15);
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
export type FlatTexts = Readonly<Partial<Record<PriceName | 'byok_fee_basis_points', string>>>;

type LongPromptTexts = Readonly<Partial<Record<TokenPriceName, string>>> & {
  readonly above_tokens: number;
};

/** Prices with tiers as in the configuration. Also stored with each request's record. */
export type PriceTexts = FlatTexts & { readonly long_prompts?: readonly LongPromptTexts[] };

export function readPriceList({ long_prompts: tiers, ...base }: PriceTexts): PriceList {
  const prices = readPrices(base);
  if (!tiers || tiers.length === 0) return prices;
  const longPrompts = tiers.map(({ above_tokens: aboveTokens }) => ({
    aboveTokens,
    prices: readPrices(textsAbove(base, tiers, aboveTokens)),
  }));
  return { ...prices, longPrompts };
}

/** Returns the prices for a prompt of this length. */
export function pricesFor(list: PriceList, promptTokens: number): Prices {
  let prices: Prices = list;
  for (const step of list.longPrompts ?? []) {
    if (promptTokens > step.aboveTokens) prices = step.prices;
  }
  return prices;
}

/** Returns the price texts for a prompt of this length, and the tier's limit or null for none. */
export function textsFor(
  { long_prompts: tiers = [], ...base }: PriceTexts,
  promptTokens: number,
): { readonly texts: FlatTexts; readonly aboveTokens: number | null } {
  const reached = tiers.findLast((tier) => promptTokens > tier.above_tokens);
  if (!reached) return { texts: base, aboveTokens: null };
  const aboveTokens = reached.above_tokens;
  return { texts: textsAbove(base, tiers, aboveTokens), aboveTokens };
}

/** A tier lists only the prices it changes; the others are those of the tier before it. */
function textsAbove(
  base: FlatTexts,
  tiers: readonly LongPromptTexts[],
  aboveTokens: number,
): FlatTexts {
  let texts = base;
  for (const { above_tokens, ...changed } of tiers) {
    if (above_tokens <= aboveTokens) texts = { ...texts, ...changed };
  }
  return texts;
}
