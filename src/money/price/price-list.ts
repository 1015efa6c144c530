import { formatDecimal, type NanoUsd, parseUsd } from './usd.ts';

/** What an endpoint charges, parsed once at start. An absent price is zero. */
export interface Prices {
  /** Per million tokens. */
  readonly prompt: NanoUsd;
  readonly audio: NanoUsd;
  readonly completion: NanoUsd;
  readonly cacheRead: NanoUsd;
  readonly cacheWrite: NanoUsd;
  readonly cacheWrite1h: NanoUsd;
  /** Each. */
  readonly request: NanoUsd;
  readonly image: NanoUsd;
  readonly outputImage: NanoUsd;
  readonly minute: NanoUsd;
  /** Per million. */
  readonly characters: NanoUsd;
  readonly bytes: NanoUsd;
}

/**
 * Cached input and audio cost what plain input costs unless the endpoint says otherwise, and a
 * cache write for an hour costs what any cache write costs.
 */
export function readPrices(texts: Readonly<Record<string, string | undefined>>): Prices {
  const price = (name: string, fallback = name, lastFallback = fallback): NanoUsd =>
    parseUsd(texts[name] ?? texts[fallback] ?? texts[lastFallback] ?? '0') ?? 0n;
  return {
    prompt: price('prompt'),
    audio: price('audio', 'prompt'),
    completion: price('completion'),
    cacheRead: price('cache_read', 'prompt'),
    cacheWrite: price('cache_write', 'prompt'),
    cacheWrite1h: price('cache_write_1h', 'cache_write', 'prompt'),
    request: price('request'),
    image: price('image'),
    outputImage: price('output_image'),
    minute: price('minute'),
    characters: price('characters'),
    bytes: price('bytes'),
  };
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

type InputPrice = 'prompt' | 'audio' | 'cache_read' | 'cache_write' | 'cache_write_1h';
type TokenPrice = InputPrice | 'completion';
type UnitPrice = 'request' | 'image' | 'output_image' | 'characters' | 'bytes' | 'minute';
type PriceName = TokenPrice | UnitPrice | 'byok_fee_basis_points';

/** Prices as they are written, by name. */
export type FlatTexts = Readonly<Partial<Record<PriceName, string>>>;

type LongPromptTexts = Readonly<Partial<Record<TokenPrice, string>>> & {
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
