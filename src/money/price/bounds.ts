import type { ChatRequestInfo } from '../../core/request-info.ts';
import { type Measured, noUnits, totalTokens, type Units } from '../../core/usage.ts';
import { type BilledAccount, chargeAt, maxCost } from './cost.ts';
import type { PriceList, Prices } from './price-list.ts';
import type { NanoUsd } from './usd.ts';

/**
 * What a request may cost, before it is sent. Not the worst case in theory: clients send output
 * caps of 64,000 by default, and holding all of that would refuse solvent users. A stream that
 * grows beyond its hold extends it; what no hold foresaw is taken from the wallet in the end.
 */

/** Three bytes a token is near the truth for CJK text and above it for the rest. */
const bytesPerToken = 3;
/** What an image costs in tokens at most, with the models that count it in tokens. */
const tokensPerImage = 2_000;
/** Assumed where the catalogue does not say how many tokens a model takes at once. */
const defaultContextTokens = 1_000_000;
/**
 * The smallest context assumed: a provider may count more tokens than were sent, and an operator
 * may have entered too small a context. Bills of this size empty no wallet.
 */
const minContextTokens = 128_000;

export interface PricedOffer extends BilledAccount {
  readonly prices: PriceList;
  readonly model: {
    readonly context_length?: number | undefined;
    readonly max_completion_tokens?: number | undefined;
    readonly isShipped?: true | undefined;
  };
}

export interface Bound {
  /** What is set aside at first. */
  readonly requested: number;
  readonly minimum: number;
  /** What the request costs if its output is as long as the client or the model allows. */
  readonly maximum: number;
}

/** What a request may cost at the offers it could go to. Each kind of operation has its own. */
export interface CostBounds {
  /** The hold that covers the dearest of the offers. */
  boundFor(offers: readonly PricedOffer[], creditsPerUsd: number): Bound;
  /**
   * The output cap that keeps the cost within these credits; null where there is nothing to cap.
   */
  capWithin(credits: number, offer: PricedOffer, creditsPerUsd: number): number | null;
  /** The output cap to send where neither the client nor its credits set one; null for none. */
  defaultCapFor(offer: PricedOffer): number | null;
  /** How the answer may grow up to that cap; null where its price is known beforehand. */
  growthFor(
    offer: PricedOffer,
    cap: number | null,
    credits: number,
    creditsPerUsd: number,
  ): Growth | null;
  /** The most tokens the request can take at once: no report of many times that can be true. */
  contextTokensFor(offer: PricedOffer): number;
}

export class ChatBounds implements CostBounds {
  readonly #request: ChatRequestInfo;

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
   * The cap that the operator set for the model, if it fits beside the prompt: many servers refuse
   * one that does not. Shipped models get none: their provider knows the limit, and may count a cap
   * as if it were used.
   */
  defaultCapFor({ model }: PricedOffer): number | null {
    const { max_completion_tokens: maximum, context_length = Number.POSITIVE_INFINITY } = model;
    if (this.#request.outputTokensMax !== null || maximum === undefined || model.isShipped)
      return null;
    return inputBound(this.#request) + maximum <= context_length ? maximum : null;
  }

  growthFor(
    offer: PricedOffer,
    cap: number | null,
    credits: number,
    creditsPerUsd: number,
  ): Growth {
    const { choices } = this.#request;
    const maximum = cap ?? maxOutputTokens(this.#request, offer);
    const held = Math.min(maximum, firstHoldTokens(this.#request, offer));
    return new Growth(held * choices, maximum * choices, credits, (tokens) =>
      chatCost(this.#request, offer, tokens, creditsPerUsd),
    );
  }

  contextTokensFor({ model }: PricedOffer): number {
    const { context_length = defaultContextTokens, max_completion_tokens = 0 } = model;
    return Math.max(minContextTokens, context_length, max_completion_tokens);
  }
}

/** For operations whose price is known before they are sent, or at least bounded. */
export class FixedBounds implements CostBounds {
  readonly #maximum: Pick<Measured, 'usage' | 'units'>;

  constructor(maximum: Pick<Measured, 'usage' | 'units'>) {
    this.#maximum = maximum;
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

  capWithin(): null {
    return null;
  }

  defaultCapFor(): null {
    return null;
  }

  growthFor(): null {
    return null;
  }

  /**
   * Counted from what was sent, not by the model: a request may have many texts, each of full
   * length.
   */
  contextTokensFor(): number {
    return Math.max(minContextTokens, totalTokens(this.#maximum.usage));
  }
}

/** Output tokens that the first hold covers. */
export function firstHoldTokens(request: ChatRequestInfo, offer: PricedOffer): number {
  return Math.min(maxOutputTokens(request, offer), tokensPerExtension);
}

/** The most output tokens that the client or the model allows; infinite when neither says. */
function maxOutputTokens(request: ChatRequestInfo, { model }: PricedOffer): number {
  const cap = request.outputTokensMax ?? Number.POSITIVE_INFINITY;
  return Math.min(cap, model.max_completion_tokens ?? Number.POSITIVE_INFINITY);
}

/** The largest cap to send: where neither client nor model sets one, a larger might be refused. */
function outputCap(request: ChatRequestInfo, offer: PricedOffer): number {
  const maximum = maxOutputTokens(request, offer);
  return Number.isFinite(maximum) ? maximum : tokensPerExtension;
}

/** What a chat costs at most with this much output, all choices together. */
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

/** The most tokens that a text of this many bytes is taken to have. */
export function maxTokensIn(bytes: number): number {
  return Math.ceil(bytes / bytesPerToken);
}

export function inputBound(request: ChatRequestInfo): number {
  return maxTokensIn(textBytes(request)) + request.images.length * tokensPerImage;
}

export function imageUnits({ images }: ChatRequestInfo): Units {
  return images.length > 0 ? { inputImages: images.length } : noUnits;
}

/** The bytes of a request without its pictures, whose bytes say nothing about their tokens. */
export function textBytes({ inputBytes, images }: ChatRequestInfo): number {
  let bytes = inputBytes;
  for (const { url } of images) bytes -= url.length;
  return Math.max(0, bytes);
}

/** By what a request may have: sounds, and input that is cached for an hour, cost more. */
interface HoldPrices {
  readonly hasHigherOneHourPrice: boolean;
  readonly hasHigherAudioPrice: boolean;
  readonly standard: PriceList;
  readonly withOneHourCache: PriceList;
  readonly withAudio: PriceList;
  readonly withBoth: PriceList;
}

/**
 * A token of sound takes at least ten times the bytes that we allow for a token of text: a second
 * of sound is 32 tokens at most, and in base64 no recording has less than 1,000 bytes for a second.
 */
const audioBytesRatio = 10n;

type ReadPrice = (prices: Prices) => NanoUsd;
const standardInputs: readonly ReadPrice[] = [
  ({ cache_read }) => cache_read,
  ({ cache_write }) => cache_write,
];
const oneHourCachePrice: ReadPrice = ({ cache_write_1h }) => cache_write_1h;
/**
 * The price of sound for the bytes of one text token; rounded up, as a hold must not be too small.
 */
const audioPrice: ReadPrice = ({ audio }) => (audio + audioBytesRatio - 1n) / audioBytesRatio;

/**
 * Worked out once for each list, which lasts as long as the configuration; a request asks twice.
 */
const holdPricesByList = new WeakMap<PriceList, HoldPrices>();

/** The prices to hold by, before anybody knows how much of the input is cached, or is sound. */
export function holdPrices(list: PriceList, request: ChatRequestInfo): PriceList {
  let known = holdPricesByList.get(list);
  if (!known) {
    known = computeHoldPrices(list);
    holdPricesByList.set(list, known);
  }
  const withOneHourCache = known.hasHigherOneHourPrice && request.cachesForHour();
  const withAudio = known.hasHigherAudioPrice && request.needs.audio;
  if (withOneHourCache) return withAudio ? known.withBoth : known.withOneHourCache;
  return withAudio ? known.withAudio : known.standard;
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

/** An answer that is paid for as it grows, and how far the credits set aside for it reach. */

/** Output that one hold or one extension of it covers. */
const tokensPerExtension = 4_096;
/** With less output than this an answer is of no use to anybody. */
const minOutputTokens = 16;

/** Surely more text than a token has: an upstream that sends more per token ignores its cap. */
const charactersPerCappedToken = 8;
/**
 * About the text of a token: beyond this, what is paid for may be used up, and more is set aside.
 */
export const charactersPerOpenToken = 3;

/** The most tokens up to `high` that the credits pay for; `low` of them are paid in any case. */
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
 * Sets more credits aside: as many as wanted, or fewer, but not below the least. Null: too few
 * left.
 */
type ExtendHold = (requested: number, minimum: number) => Promise<number | null>;

export class Growth {
  readonly #maxTokens: number;
  readonly #creditsFor: (outputTokens: number) => number;
  #paidTokens: number;
  #credits: number;

  /**
   * The upstream is told to stop at `mostTokens`; infinite where it is not told. `credits` pay for
   * the first tokens, or for more where they were held for a dearer offer. All that was paid is
   * counted together, as the bill will be: it is rounded once.
   */
  constructor(
    paidTokens: number,
    maxTokens: number,
    credits: number,
    creditsFor: (outputTokens: number) => number,
  ) {
    this.#paidTokens = paidTokens;
    this.#maxTokens = maxTokens;
    this.#credits = credits;
    this.#creditsFor = creditsFor;
  }

  get charactersMax(): number {
    const isComplete = this.#paidTokens >= this.#maxTokens;
    return this.#paidTokens * (isComplete ? charactersPerCappedToken : charactersPerOpenToken);
  }

  /** Pays for the next stretch, or for as much of it as is worth going on for. */
  async extend(extendHold: ExtendHold): Promise<boolean> {
    const before = this.#paidTokens;
    const tokens = this.#nextTokens;
    const isPaid = this.#payUpTo(before + tokens) > before;
    if (isPaid) return true;
    const missing = (more: number) => this.#creditsFor(before + more) - this.#credits;
    const more = await extendHold(missing(tokens), missing(Math.min(minOutputTokens, tokens)));
    if (more === null) return false;
    this.#credits += more;
    this.#payUpTo(before + tokens);
    return true;
  }

  /** Raises the paid tokens towards this number, as far as the credits reach. */
  #payUpTo(tokens: number): number {
    this.#paidTokens = maxAffordableTokens(
      this.#paidTokens,
      tokens,
      this.#credits,
      this.#creditsFor,
    );
    return this.#paidTokens;
  }

  get #nextTokens(): number {
    const left = this.#maxTokens - this.#paidTokens;
    // An answer that goes on after its cap is paid for in whole stretches.
    return left > 0 ? Math.min(left, tokensPerExtension) : tokensPerExtension;
  }
}
