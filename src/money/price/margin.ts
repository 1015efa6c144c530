import { type PriceName, priceNames, priceStringOf, tokenPriceNames } from './price-classes.ts';
import { type FlatPriceStrings, type PriceStrings, priceStringsFor } from './price-list.ts';
import { formatUsd, parseUsd } from './usd.ts';

/** What the tenants of a plan pay: list prices times a factor, plus a surcharge. */
export interface Margin {
  /** The name of the plan. */
  readonly plan: string;
  /** 10,000 is the list price. */
  readonly factorBasisPoints: number;
  /**
   * Added to each price after the factor. As in a price list, an unset price defaults to that of
   * its fallback class, or to 0.
   */
  readonly surcharge: FlatPriceStrings;
}

/** The factor that doesn't change a price. */
export const unitFactor = 10_000;

/**
 * Returns the prices that tenants pay instead of list prices. They are exact, with up to 13
 * decimals, so that holds, comparisons, and receipts work as with list prices, and a fee is still
 * rounded once.
 */
export function withMargin(list: PriceStrings, margin: Margin): PriceStrings {
  const { long_prompts: tiers, ...base } = list;
  const tierStrings = (tiers ?? []).map(({ above_tokens }) => ({
    above_tokens,
    // A tier applies to prompts that are longer than its limit.
    prices: priceStringsFor(list, above_tokens + 1).priceStrings,
  }));
  // A price that is set nowhere keeps its fallback, which has a margin too.
  const sets = [base, margin.surcharge, ...tierStrings.map(({ prices }) => prices)];
  const isSet = (name: PriceName) => sets.some((prices) => prices[name] !== undefined);
  const names = priceNames.filter(isSet);
  const tokenNames = tokenPriceNames.filter(isSet);
  const charged = chargedPrices(base, names, margin);
  if (tierStrings.length === 0) return charged;
  const longPrompts = tierStrings.map(({ above_tokens, prices }) => ({
    above_tokens,
    ...chargedPrices(prices, tokenNames, margin),
  }));
  return { ...charged, long_prompts: longPrompts };
}

function chargedPrices(
  list: FlatPriceStrings,
  names: readonly PriceName[],
  { factorBasisPoints, surcharge }: Margin,
): FlatPriceStrings {
  const prices: Partial<Record<PriceName, string>> = {};
  for (const name of names) {
    const listPrice = parseUsd(priceStringOf(list, name) ?? '0') ?? 0n;
    const added = parseUsd(priceStringOf(surcharge, name) ?? '0') ?? 0n;
    // Exact: list prices have 4 decimals less than the unit of prices.
    const product = (listPrice * BigInt(factorBasisPoints)) / BigInt(unitFactor);
    prices[name] = formatUsd(product + added);
  }
  return prices;
}
