import type { ChatRequestInfo } from '../../core/request-info.ts';
import { type Measured, noUnits, totalTokens, type Units } from '../../core/usage.ts';
import {
  addedInputTokensMax,
  type BilledAccount,
  chargeAt,
  chatTokensMax,
  maxCost,
} from './cost.ts';
import type { PriceList, Prices } from './price-list.ts';
import type { UsdPrice } from './usd.ts';

/**
 * Bounds on what a request may cost, computed before it is sent. A hold doesn't cover the worst
 * case: clients send output caps of 64,000 by default, and holding all of that would reject callers
 * who can pay. A stream that outgrows its hold extends it, and settling takes what the hold doesn't
 * cover.
 */

/** Close to the real ratio for CJK text. Overestimates the tokens of other text. */
const bytesPerToken = 3;
/** The most input tokens that an image is assumed to have. */
const tokensPerImage = 2_000;
/** Tokenizers differ, and media have more tokens at some providers than at others. */
const fixedBoundsRatio = 4;

export interface PricedOffer extends BilledAccount {
  readonly prices: PriceList;
  readonly model: {
    readonly context_length?: number | undefined;
    readonly max_completion_tokens?: number | undefined;
    readonly isBuiltIn?: true | undefined;
  };
}

export interface Bound {
  /** The size of the first hold. */
  readonly requested: number;
  /** The smallest hold with which it is worth sending the request. */
  readonly minimum: number;
  /** The cost if the output is as long as the client or the model allows. */
  readonly maximum: number;
}

/** Bounds on what an operation may cost at the offers that can serve it. */
export interface CostBounds {
  /** Returns the bound that covers the most expensive of the offers. */
  boundFor(offers: readonly PricedOffer[], creditsPerUsd: number): Bound;
  /** Returns the most tokens that a request can use, so that a miscount can't drain a wallet. */
  tokensMaxFor(offer: PricedOffer): number;
  /** Bounds on output that may outgrow its hold. Absent if the price is known in advance. */
  readonly output?: OutputBounds;
}

/** Bounds on the output of an operation whose length isn't known in advance. */
export interface OutputBounds {
  /** Returns the output cap that keeps the cost within these credits. */
  capWithin(credits: number, offer: PricedOffer, creditsPerUsd: number): number;
  /**
   * Returns the output cap to send if neither the client nor its credits set one, or null for none.
   */
  defaultCapFor(offer: PricedOffer): number | null;
  /**
   * Returns a tracker of how much of an output with this cap the hold covers. `credits` are already
   * held.
   */
  trackHold(
    offer: PricedOffer,
    cap: number | null,
    credits: number,
    creditsPerUsd: number,
  ): HoldTracker;
}

export class ChatBounds implements CostBounds, OutputBounds {
  readonly #request: ChatRequestInfo;
  readonly output: OutputBounds = this;

  constructor(request: ChatRequestInfo) {
    this.#request = request;
  }

  boundFor(offers: readonly PricedOffer[], creditsPerUsd: number): Bound {
    const request = this.#request;
    let [requested, minimum, maximum] = [0, 0, 0];
    for (const offer of offers) {
      const costOf = (tokens: number) =>
        chatCost(request, offer, tokens * request.choices, creditsPerUsd);
      const [holdTokens, capTokens] = [firstHoldTokens(request, offer), outputCap(request, offer)];
      const held = costOf(holdTokens);
      requested = Math.max(requested, held);
      minimum = Math.max(minimum, costOf(Math.min(minOutputTokens, holdTokens)));
      maximum = Math.max(maximum, capTokens > holdTokens ? costOf(capTokens) : held);
    }
    return { requested, minimum, maximum };
  }

  capWithin(credits: number, offer: PricedOffer, creditsPerUsd: number): number {
    const request = this.#request;
    return maxAffordableTokens(0, outputCap(request, offer), credits, (tokens) =>
      chatCost(request, offer, tokens * request.choices, creditsPerUsd),
    );
  }

  /**
   * Returns the operator's output cap for the model if the cap and the prompt together fit in the
   * context. Many servers reject a cap that doesn't fit. Models of the shipped catalog get no cap,
   * because their provider knows the limit and may count a cap against rate limits.
   */
  defaultCapFor({ model }: PricedOffer): number | null {
    const { max_completion_tokens: maximum, context_length = Number.POSITIVE_INFINITY } = model;
    if (this.#request.outputTokensMax !== null || maximum === undefined || model.isBuiltIn)
      return null;
    return inputBound(this.#request) + maximum <= context_length ? maximum : null;
  }

  trackHold(
    offer: PricedOffer,
    cap: number | null,
    credits: number,
    creditsPerUsd: number,
  ): HoldTracker {
    const { choices } = this.#request;
    const maximum = cap ?? maxOutputTokens(this.#request, offer);
    const held = Math.min(maximum, firstHoldTokens(this.#request, offer));
    return new HoldTracker(held * choices, maximum * choices, credits, (tokens) =>
      chatCost(this.#request, offer, tokens, creditsPerUsd),
    );
  }

  tokensMaxFor({ model }: PricedOffer): number {
    return chatTokensMax(model);
  }
}

/** Bounds of operations whose highest price is known before they are sent. */
export class FixedBounds implements CostBounds {
  readonly #maximum: Pick<Measured, 'usage' | 'units'>;
  readonly #addedTokensMax: number;

  /** `addedTokensMax`: the tokens that a provider may add to the request. */
  constructor(
    maximum: Pick<Measured, 'usage' | 'units'>,
    addedTokensMax: number = addedInputTokensMax,
  ) {
    this.#maximum = maximum;
    this.#addedTokensMax = addedTokensMax;
  }

  boundFor(offers: readonly PricedOffer[], creditsPerUsd: number): Bound {
    const { usage, units } = this.#maximum;
    let requested = 0;
    for (const offer of offers) {
      const cost = maxCost(usage, offer.prices, units);
      requested = Math.max(requested, chargeAt(offer, cost, creditsPerUsd));
    }
    return { requested, minimum: requested, maximum: requested };
  }

  tokensMaxFor(): number {
    return totalTokens(this.#maximum.usage) * fixedBoundsRatio + this.#addedTokensMax;
  }
}

/** Returns the output tokens that the first hold covers. */
export function firstHoldTokens(request: ChatRequestInfo, offer: PricedOffer): number {
  return Math.min(maxOutputTokens(request, offer), tokensPerExtension);
}

/** Returns the most output tokens that the client and the model allow, or infinity. */
function maxOutputTokens(request: ChatRequestInfo, { model }: PricedOffer): number {
  const cap = request.outputTokensMax ?? Number.POSITIVE_INFINITY;
  return Math.min(cap, model.max_completion_tokens ?? Number.POSITIVE_INFINITY);
}

/**
 * Returns the largest cap to send. If neither the client nor the model sets a limit, returns the
 * size of one extension, because the provider might reject a higher cap.
 */
function outputCap(request: ChatRequestInfo, offer: PricedOffer): number {
  const maximum = maxOutputTokens(request, offer);
  return Number.isFinite(maximum) ? maximum : tokensPerExtension;
}

/** Returns the highest charge for a chat with this much output in all choices together. */
function chatCost(
  request: ChatRequestInfo,
  offer: PricedOffer,
  outputTokens: number,
  creditsPerUsd: number,
): number {
  const usage = {
    inputTokens: inputBound(request),
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    outputTokens,
    reasoningTokens: 0,
  };
  const prices = holdPrices(offer.prices, request);
  const cost = maxCost(usage, prices, imageUnits(request));
  return chargeAt(offer, cost, creditsPerUsd);
}

/** Returns the most tokens that a text of this many bytes is assumed to have. */
export function maxTokensIn(bytes: number): number {
  return Math.ceil(bytes / bytesPerToken);
}

export function inputBound(request: ChatRequestInfo): number {
  return maxTokensIn(textBytes(request)) + request.images.length * tokensPerImage;
}

export function imageUnits({ images }: ChatRequestInfo): Units {
  return images.length > 0 ? { inputImages: images.length } : noUnits;
}

/** Returns the bytes of a request without its images, whose tokens don't depend on their bytes. */
export function textBytes({ inputBytes, images }: ChatRequestInfo): number {
  let bytes = inputBytes;
  for (const { url } of images) bytes -= url.length;
  return Math.max(0, bytes);
}

/**
 * Prices used to compute holds. Audio input and 1-hour cache writes may cost more than other input.
 */
interface HoldPrices {
  readonly hasHigherOneHourPrice: boolean;
  readonly hasHigherAudioPrice: boolean;
  readonly standard: PriceList;
  readonly withOneHourCache: PriceList;
  readonly withAudio: PriceList;
  readonly withBoth: PriceList;
}

/**
 * An audio token takes at least 10 times the bytes assumed for a text token: a second of audio is
 * at most 32 tokens and, in base64, at least 1,000 bytes.
 */
const audioBytesRatio = 10n;

type ReadPrice = (prices: Prices) => UsdPrice;
const standardInputs: readonly ReadPrice[] = [
  ({ cache_read }) => cache_read,
  ({ cache_write }) => cache_write,
];
const oneHourCachePrice: ReadPrice = ({ cache_write_1h }) => cache_write_1h;
/** The price of audio for the bytes of one text token, rounded up. */
const audioPrice: ReadPrice = ({ audio }) => (audio + audioBytesRatio - 1n) / audioBytesRatio;

/** Cached by price list, which lives as long as the configuration. */
const holdPricesByList = new WeakMap<PriceList, HoldPrices>();

/** Returns prices that charge all input at the highest price it may turn out to have. */
export function holdPrices(list: PriceList, request: ChatRequestInfo): PriceList {
  let prices = holdPricesByList.get(list);
  if (!prices) {
    prices = computeHoldPrices(list);
    holdPricesByList.set(list, prices);
  }
  const withOneHourCache = prices.hasHigherOneHourPrice && request.usesLongCacheTtl();
  const withAudio = prices.hasHigherAudioPrice && request.needs.audio;
  if (withOneHourCache) return withAudio ? prices.withBoth : prices.withOneHourCache;
  return withAudio ? prices.withAudio : prices.standard;
}

function computeHoldPrices(list: PriceList): HoldPrices {
  const levels: readonly Prices[] = [list, ...(list.longPrompts ?? []).map(({ prices }) => prices)];
  return {
    hasHigherOneHourPrice: levels.some((prices) => prices.cache_write_1h > prices.cache_write),
    hasHigherAudioPrice: levels.some((prices) => audioPrice(prices) > prices.prompt),
    standard: withHighestInputPrices(list, standardInputs),
    withOneHourCache: withHighestInputPrices(list, [...standardInputs, oneHourCachePrice]),
    withAudio: withHighestInputPrices(list, [...standardInputs, audioPrice]),
    withBoth: withHighestInputPrices(list, [...standardInputs, oneHourCachePrice, audioPrice]),
  };
}

function withHighestInputPrices(list: PriceList, inputs: readonly ReadPrice[]): PriceList {
  const longPrompts = list.longPrompts?.map(({ aboveTokens, prices }) => ({
    aboveTokens,
    prices: withHighestInputPrice(prices, inputs),
  }));
  return { ...withHighestInputPrice(list, inputs), ...(longPrompts && { longPrompts }) };
}

function withHighestInputPrice(prices: Prices, inputs: readonly ReadPrice[]): Prices {
  let highest = prices.prompt;
  for (const priceOf of inputs) {
    const price = priceOf(prices);
    if (price > highest) highest = price;
  }
  return { ...prices, prompt: highest };
}

/** Output tokens that the first hold, or one extension, covers. */
const tokensPerExtension = 4_096;
/** The shortest output worth paying for. */
const minOutputTokens = 16;

/** More characters than a token can have. An upstream that sends more per token ignores its cap. */
const maxCharactersPerToken = 8;
/**
 * The approximate length of a token. After this many characters per held token, the hold is
 * extended.
 */
export const charactersPerHeldToken = 3;

/** Returns the most tokens between `low` and `high` that the credits pay for. */
function maxAffordableTokens(
  low: number,
  high: number,
  credits: number,
  creditsFor: (tokens: number) => number,
): number {
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (creditsFor(middle) <= credits) low = middle;
    else high = middle - 1;
  }
  return low;
}

/**
 * Holds `requested` more credits, or fewer, but at least `minimum`. Returns null if too few are
 * left.
 */
type ExtendHold = (requested: number, minimum: number) => Promise<number | null>;

/** Tracks how many output tokens of a growing answer are held, and extends the hold. */
export class HoldTracker {
  readonly #maxTokens: number;
  readonly #creditsFor: (outputTokens: number) => number;
  #heldTokens: number;
  #credits: number;

  /**
   * `maxTokens` is the output cap sent upstream, or infinity. `credits` cover `heldTokens`, or more
   * if the credits were held for a more expensive offer. `creditsFor` takes the number of all
   * output tokens, because the bill is rounded only once.
   */
  constructor(
    heldTokens: number,
    maxTokens: number,
    credits: number,
    creditsFor: (outputTokens: number) => number,
  ) {
    this.#heldTokens = heldTokens;
    this.#maxTokens = maxTokens;
    this.#credits = credits;
    this.#creditsFor = creditsFor;
  }

  /** The length of output text at which the hold must be extended. */
  get charactersMax(): number {
    const isComplete = this.#heldTokens >= this.#maxTokens;
    return this.#heldTokens * (isComplete ? maxCharactersPerToken : charactersPerHeldToken);
  }

  /** Holds credits for the next part of the output. Returns false if too few are left. */
  async extend(extendHold: ExtendHold): Promise<boolean> {
    const before = this.#heldTokens;
    const tokens = this.#nextTokens;
    const isCovered = this.#coverUpTo(before + tokens) > before;
    if (isCovered) return true;
    const missing = (added: number) => this.#creditsFor(before + added) - this.#credits;
    const extension = await extendHold(missing(tokens), missing(Math.min(minOutputTokens, tokens)));
    if (extension === null) return false;
    this.#credits += extension;
    this.#coverUpTo(before + tokens);
    return true;
  }

  /** Raises the held tokens to this number, or to as many as the credits cover. Returns them. */
  #coverUpTo(tokens: number): number {
    this.#heldTokens = maxAffordableTokens(
      this.#heldTokens,
      tokens,
      this.#credits,
      this.#creditsFor,
    );
    return this.#heldTokens;
  }

  get #nextTokens(): number {
    const left = this.#maxTokens - this.#heldTokens;
    // If an answer continues past its cap, each extension covers the full `tokensPerExtension`.
    return left > 0 ? Math.min(left, tokensPerExtension) : tokensPerExtension;
  }
}
