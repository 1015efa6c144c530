import type { ChatAsk } from '../core/chat.ts';
import type { PriceList } from '../core/long-prompts.ts';
import { type NanoUsd, perMillion } from '../core/money.ts';
import { type Measured, noUnits, noUsage, promptTokens, type Units } from '../core/usage.ts';
import { chargeAt, costAt, mostCost, type Payer } from './price.ts';

/**
 * What a request may cost, before anybody knows. Not the worst case in theory: clients send output
 * caps of 64,000 by default, and holding all of that would refuse solvent users. A stream that
 * grows beyond its hold extends it; what no hold foresaw is taken from the wallet in the end.
 */

/** Output held at first. */
export const firstOutputTokens = 4_096;
/** Below this much output an answer is of no use to anybody. */
const leastOutputTokens = 16;
/** Three bytes a token is near the truth for CJK text and above it for the rest. */
const bytesPerToken = 3;
/** What an image costs in tokens at most, with the models that count it in tokens. */
const tokensPerImage = 2_000;

export interface Priced extends Payer {
  readonly prices: PriceList;
  readonly model: { readonly max_completion_tokens?: number | undefined };
}

export interface Bound {
  readonly wanted: number;
  readonly least: number;
}

/** What a request may cost at the offers it could go to. Each kind of operation has its own. */
export interface CostBounds {
  /** The hold over the dearest of them. */
  over(offers: readonly Priced[], creditsPerUsd: number): Bound;
  /** The output cap that keeps it within a hold; null where there is nothing to cap. */
  capWithin(credits: number, offer: Priced, creditsPerUsd: number): number | null;
  /** How far its answer may grow on that hold; null where its price is known beforehand. */
  growthAt(offer: Priced, cap: number | null, creditsPerUsd: number): Growth | null;
}

/** An answer that is paid for as it grows. */
export interface Growth {
  readonly charactersMax: number;
  readonly stepCharacters: number;
  readonly stepCredits: number;
}

/** Text that surely is more than its tokens: an upstream that sends this ignores its cap. */
const charactersPerCappedToken = 8;
/** Text that may well be more than its tokens: time to set more aside. */
const charactersPerOpenToken = 3;

export class ChatBounds implements CostBounds {
  readonly #ask: ChatAsk;

  constructor(ask: ChatAsk) {
    this.#ask = ask;
  }

  over(offers: readonly Priced[], creditsPerUsd: number): Bound {
    return boundOf(this.#ask, offers, creditsPerUsd);
  }

  capWithin(credits: number, offer: Priced, creditsPerUsd: number): number {
    return affordableOutput(this.#ask, offer, credits, creditsPerUsd);
  }

  growthAt(offer: Priced, cap: number | null, creditsPerUsd: number): Growth {
    const { outputTokensMax, choices } = this.#ask;
    const held = cap ?? outputBound(this.#ask, offer);
    const isCapped = cap !== null || (outputTokensMax ?? Number.POSITIVE_INFINITY) <= held;
    const perToken = isCapped ? charactersPerCappedToken : charactersPerOpenToken;
    // A hold covers the request's fixed price already; an extension is output alone.
    const stepCost = mostCost(offer.prices, inputBound(this.#ask), ({ completion }) =>
      perMillion(completion, firstOutputTokens),
    );
    return {
      charactersMax: held * choices * perToken,
      stepCharacters: firstOutputTokens * perToken,
      stepCredits: chargeAt(offer, stepCost, creditsPerUsd),
    };
  }
}

/** For operations whose price is known before they are sent, or at least bounded. */
export class FixedBounds implements CostBounds {
  readonly #most: (offer: Priced) => Pick<Measured, 'usage' | 'units'>;

  constructor(most: (offer: Priced) => Pick<Measured, 'usage' | 'units'>) {
    this.#most = most;
  }

  over(offers: readonly Priced[], creditsPerUsd: number): Bound {
    const costs = offers.map((offer) => {
      const { usage, units } = this.#most(offer);
      const cost = mostCost(offer.prices, promptTokens(usage), (prices) =>
        costAt(usage, prices, units),
      );
      return chargeAt(offer, cost, creditsPerUsd);
    });
    const wanted = Math.max(0, ...costs);
    return { wanted, least: wanted };
  }

  capWithin(): null {
    return null;
  }

  growthAt(): null {
    return null;
  }
}

/** The hold for a request over its dearest candidate. */
export function boundOf(ask: ChatAsk, offers: readonly Priced[], creditsPerUsd: number): Bound {
  const over = (outputTokens: (offer: Priced) => number) =>
    Math.max(0, ...offers.map((offer) => chatCost(ask, offer, outputTokens(offer), creditsPerUsd)));
  return {
    wanted: over((offer) => outputBound(ask, offer)),
    least: over((offer) => Math.min(leastOutputTokens, outputBound(ask, offer))),
  };
}

/** Output tokens that the first hold covers. */
export function outputBound(ask: ChatAsk, { model }: Priced): number {
  const cap = ask.outputTokensMax ?? Number.POSITIVE_INFINITY;
  const most = model.max_completion_tokens ?? firstOutputTokens;
  return Math.min(cap, most, firstOutputTokens);
}

/** The output that fits into a hold smaller than wanted: what the upstream is told to stop at. */
export function affordableOutput(
  ask: ChatAsk,
  offer: Priced,
  credits: number,
  creditsPerUsd: number,
): number {
  let [low, high] = [0, outputBound(ask, offer)];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (chatCost(ask, offer, middle, creditsPerUsd) <= credits) low = middle;
    else high = middle - 1;
  }
  return low;
}

function chatCost(
  ask: ChatAsk,
  offer: Priced,
  outputTokens: number,
  creditsPerUsd: number,
): number {
  const usage = {
    ...noUsage,
    inputTokens: inputBound(ask),
    outputTokens: outputTokens * ask.choices,
  };
  const units = imageUnits(ask);
  const cost = mostCost(offer.prices, usage.inputTokens, (prices) => {
    // Nobody knows yet how much of the input a cache will read or write.
    const { prompt, cacheRead, cacheWrite } = prices;
    return costAt(usage, { ...prices, prompt: dearest(prompt, cacheRead, cacheWrite) }, units);
  });
  return chargeAt(offer, cost, creditsPerUsd);
}

function dearest(...prices: readonly NanoUsd[]): NanoUsd {
  let most = 0n;
  for (const price of prices) if (price > most) most = price;
  return most;
}

/** The most tokens that a text of so many bytes is reckoned with. */
export function tokensWithin(bytes: number): number {
  return Math.ceil(bytes / bytesPerToken);
}

export function inputBound(ask: ChatAsk): number {
  return tokensWithin(textBytes(ask)) + ask.images.length * tokensPerImage;
}

export function imageUnits({ images }: ChatAsk): Units {
  return images.length > 0 ? { inputImages: images.length } : noUnits;
}

/** The request without its pictures, whose bytes say nothing about their tokens. */
export function textBytes({ inputBytes, images }: ChatAsk): number {
  const pictures = images.reduce((sum, { url }) => sum + url.length, 0);
  return Math.max(0, inputBytes - pictures);
}
