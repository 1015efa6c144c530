import {
  mapPrices,
  type PriceName,
  priceNames,
  priceTextOf,
  type TokenPriceName,
} from './fee-kinds.ts';
import { formatDecimal, type NanoUsd, parseUsd } from './usd.ts';

/** What an endpoint charges for each price class, parsed once at startup. 0 where it isn't set. */
export type Prices = Readonly<Record<PriceName, NanoUsd>>;

/** Parses prices. A price that isn't set is that of its fallback in `priceClasses`, or 0. */
export function readPrices(texts: Readonly<Record<string, string | undefined>>): Prices {
  return mapPrices(priceNames, (name) => parseUsd(priceTextOf(texts, name) ?? '0') ?? 0n);
}

/** Dollars per token, as `pricing` in the model list quotes them: `"0.50"` per million is 5e-7. */
export function perToken(perMillion: NanoUsd): string {
  return formatDecimal(perMillion, 15);
}

/**
 * Several vendors charge more for long prompts, and then for the whole request, its output
 * included. A price list says so in steps, by the length from which each applies.
 */
export interface PriceList extends Prices {
  /** By length, rising. Left out where a token costs the same in every prompt, as usual. */
  readonly longPrompts?: readonly LongPromptPrices[];
}

interface LongPromptPrices {
  readonly aboveTokens: number;
  /** All prices, including those that the step does not change. */
  readonly prices: Prices;
}

/** Prices as they are written, by name. */
export type FlatTexts = Readonly<Partial<Record<PriceName | 'byok_fee_basis_points', string>>>;

type LongPromptTexts = Readonly<Partial<Record<TokenPriceName, string>>> & {
  readonly above_tokens: number;
};

/** Price texts with their steps: as in the configuration, and as kept with each bill. */
export type PriceTexts = FlatTexts & { readonly long_prompts?: readonly LongPromptTexts[] };

export function readPriceList({ long_prompts: steps, ...base }: PriceTexts): PriceList {
  const prices = readPrices(base);
  if (!steps || steps.length === 0) return prices;
  const longPrompts = steps.map(({ above_tokens: aboveTokens }) => ({
    aboveTokens,
    prices: readPrices(textsAbove(base, steps, aboveTokens)),
  }));
  return { ...prices, longPrompts };
}

/** What a prompt of this length is charged by. */
export function pricesFor(list: PriceList, promptTokens: number): Prices {
  let prices: Prices = list;
  for (const step of list.longPrompts ?? []) {
    if (promptTokens > step.aboveTokens) prices = step.prices;
  }
  return prices;
}

/** The prices of such a prompt as written, and from which length they apply; null for the base. */
export function textsFor(
  { long_prompts: steps = [], ...base }: PriceTexts,
  promptTokens: number,
): { readonly texts: FlatTexts; readonly aboveTokens: number | null } {
  const reached = steps.findLast((step) => promptTokens > step.above_tokens);
  if (!reached) return { texts: base, aboveTokens: null };
  const aboveTokens = reached.above_tokens;
  return { texts: textsAbove(base, steps, aboveTokens), aboveTokens };
}

/** A step names only what changes there; the rest stays as it was before it. */
function textsAbove(
  base: FlatTexts,
  steps: readonly LongPromptTexts[],
  aboveTokens: number,
): FlatTexts {
  let texts = base;
  for (const { above_tokens, ...changed } of steps) {
    if (above_tokens <= aboveTokens) texts = { ...texts, ...changed };
  }
  return texts;
}
