import type { ChatAsk } from '../core/ask.ts';
import type { PriceList } from '../core/prices.ts';
import { type Measured, noUnits, totalTokens, type Units } from '../core/usage.ts';
import { Growth, lastPaid, leastOutputTokens, stretchTokens } from './growth.ts';
import { holdPrices } from './hold-prices.ts';
import { chargeAt, mostCostOf, type Payer } from './price.ts';

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
const commonContextMax = 1_000_000;
/**
 * The smallest context assumed: a provider may count more tokens than were sent, and an operator
 * may have entered too small a context. Bills of this size empty no wallet.
 */
const leastContext = 128_000;

export interface Priced extends Payer {
  readonly prices: PriceList;
  readonly model: {
    readonly context_length?: number | undefined;
    readonly max_completion_tokens?: number | undefined;
    readonly isShipped?: true | undefined;
  };
}

export interface Bound {
  /** What is set aside at first. */
  readonly wanted: number;
  readonly least: number;
  /** What the request costs if its output is as long as the client or the model allows. */
  readonly most: number;
}

/** What a request may cost at the offers it could go to. Each kind of operation has its own. */
export interface CostBounds {
  /** The hold that covers the dearest of the offers. */
  over(offers: readonly Priced[], creditsPerUsd: number): Bound;
  /**
   * The output cap that keeps the cost within these credits; null where there is nothing to cap.
   */
  capWithin(credits: number, offer: Priced, creditsPerUsd: number): number | null;
  /** The output cap to send where neither the client nor its credits set one; null for none. */
  usualCapAt(offer: Priced): number | null;
  /** How the answer may grow up to that cap; null where its price is known beforehand. */
  growthAt(
    offer: Priced,
    cap: number | null,
    credits: number,
    creditsPerUsd: number,
  ): Growth | null;
  /** The most tokens the request can take at once: no report of many times that can be true. */
  contextTokensAt(offer: Priced): number;
}

export class ChatBounds implements CostBounds {
  readonly #ask: ChatAsk;

  constructor(ask: ChatAsk) {
    this.#ask = ask;
  }

  over(offers: readonly Priced[], creditsPerUsd: number): Bound {
    const ask = this.#ask;
    let [wanted, least, most] = [0, 0, 0];
    for (const offer of offers) {
      const costOf = (tokens: number) => chatCost(ask, offer, tokens * ask.choices, creditsPerUsd);
      const [first, all] = [outputBound(ask, offer), outputCap(ask, offer)];
      const held = costOf(first);
      wanted = Math.max(wanted, held);
      least = Math.max(least, costOf(Math.min(leastOutputTokens, first)));
      most = Math.max(most, all > first ? costOf(all) : held);
    }
    return { wanted, least, most };
  }

  capWithin(credits: number, offer: Priced, creditsPerUsd: number): number {
    const ask = this.#ask;
    return lastPaid(0, outputCap(ask, offer), credits, (tokens) =>
      chatCost(ask, offer, tokens * ask.choices, creditsPerUsd),
    );
  }

  /**
   * The cap that the operator set for the model, if it fits beside the prompt: many servers refuse
   * one that does not. Shipped models get none: their provider knows the limit, and may count a cap
   * as if it were used.
   */
  usualCapAt({ model }: Priced): number | null {
    const { max_completion_tokens: most, context_length = Number.POSITIVE_INFINITY } = model;
    if (this.#ask.outputTokensMax !== null || most === undefined || model.isShipped) return null;
    return inputBound(this.#ask) + most <= context_length ? most : null;
  }

  growthAt(offer: Priced, cap: number | null, credits: number, creditsPerUsd: number): Growth {
    const { choices } = this.#ask;
    const most = cap ?? outputMost(this.#ask, offer);
    const held = Math.min(most, outputBound(this.#ask, offer));
    return new Growth(held * choices, most * choices, credits, (tokens) =>
      chatCost(this.#ask, offer, tokens, creditsPerUsd),
    );
  }

  contextTokensAt({ model }: Priced): number {
    const { context_length = commonContextMax, max_completion_tokens = 0 } = model;
    return Math.max(leastContext, context_length, max_completion_tokens);
  }
}

/** For operations whose price is known before they are sent, or at least bounded. */
export class FixedBounds implements CostBounds {
  readonly #most: Pick<Measured, 'usage' | 'units'>;

  constructor(most: Pick<Measured, 'usage' | 'units'>) {
    this.#most = most;
  }

  over(offers: readonly Priced[], creditsPerUsd: number): Bound {
    const { usage, units } = this.#most;
    let wanted = 0;
    for (const offer of offers) {
      const cost = mostCostOf(usage, offer.prices, units);
      wanted = Math.max(wanted, chargeAt(offer, cost, creditsPerUsd));
    }
    return { wanted, least: wanted, most: wanted };
  }

  capWithin(): null {
    return null;
  }

  usualCapAt(): null {
    return null;
  }

  growthAt(): null {
    return null;
  }

  /**
   * Counted from what was sent, not by the model: a request may have many texts, each of full
   * length.
   */
  contextTokensAt(): number {
    return Math.max(leastContext, totalTokens(this.#most.usage));
  }
}

/** Output tokens that the first hold covers. */
export function outputBound(ask: ChatAsk, offer: Priced): number {
  return Math.min(outputMost(ask, offer), stretchTokens);
}

/** The most output tokens that the client or the model allows; infinite when neither says. */
function outputMost(ask: ChatAsk, { model }: Priced): number {
  const cap = ask.outputTokensMax ?? Number.POSITIVE_INFINITY;
  return Math.min(cap, model.max_completion_tokens ?? Number.POSITIVE_INFINITY);
}

/** The largest cap to send: where neither client nor model sets one, a larger might be refused. */
function outputCap(ask: ChatAsk, offer: Priced): number {
  const most = outputMost(ask, offer);
  return Number.isFinite(most) ? most : stretchTokens;
}

/** What a chat costs at most with this much output, all choices together. */
function chatCost(
  ask: ChatAsk,
  offer: Priced,
  outputTokens: number,
  creditsPerUsd: number,
): number {
  const usage = {
    inputTokens: inputBound(ask),
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    outputTokens,
    reasoningTokens: 0,
  };
  const prices = holdPrices(offer.prices, ask);
  const cost = mostCostOf(usage, prices, imageUnits(ask));
  return chargeAt(offer, cost, creditsPerUsd);
}

/** The most tokens that a text of this many bytes is taken to have. */
export function tokensWithin(bytes: number): number {
  return Math.ceil(bytes / bytesPerToken);
}

export function inputBound(ask: ChatAsk): number {
  return tokensWithin(textBytes(ask)) + ask.images.length * tokensPerImage;
}

export function imageUnits({ images }: ChatAsk): Units {
  return images.length > 0 ? { inputImages: images.length } : noUnits;
}

/** The bytes of a request without its pictures, whose bytes say nothing about their tokens. */
export function textBytes({ inputBytes, images }: ChatAsk): number {
  let bytes = inputBytes;
  for (const { url } of images) bytes -= url.length;
  return Math.max(0, bytes);
}
