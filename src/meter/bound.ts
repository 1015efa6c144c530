import type { ChatAsk } from '../core/chat.ts';
import type { NanoUsd } from '../core/money.ts';
import type { Prices } from '../core/prices.ts';
import { noUsage } from '../core/usage.ts';
import { chargeAt, type Payer, tokenCost } from './price.ts';

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
  readonly prices: Prices;
  readonly model: { readonly max_completion_tokens?: number | undefined };
}

export interface Bound {
  readonly wanted: number;
  readonly least: number;
}

/** The hold for a request over its dearest candidate. */
export function boundOf(ask: ChatAsk, offers: readonly Priced[], creditsPerUsd: number): Bound {
  const over = (outputTokens: (offer: Priced) => number) =>
    Math.max(0, ...offers.map((offer) => costOf(ask, offer, outputTokens(offer), creditsPerUsd)));
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
    if (costOf(ask, offer, middle, creditsPerUsd) <= credits) low = middle;
    else high = middle - 1;
  }
  return low;
}

function costOf(ask: ChatAsk, offer: Priced, outputTokens: number, creditsPerUsd: number): number {
  const usage = {
    ...noUsage,
    inputTokens: inputBound(ask),
    outputTokens: outputTokens * ask.choices,
  };
  // Nobody knows yet how much of the input a cache will read or write.
  const { prompt, cacheRead, cacheWrite } = offer.prices;
  const prices = { ...offer.prices, prompt: dearest(prompt, cacheRead, cacheWrite) };
  return chargeAt(offer, tokenCost(usage, prices, ask.images.length), creditsPerUsd);
}

function dearest(...prices: readonly NanoUsd[]): NanoUsd {
  let most = 0n;
  for (const price of prices) if (price > most) most = price;
  return most;
}

export function inputBound(ask: ChatAsk): number {
  return Math.ceil(textBytes(ask) / bytesPerToken) + ask.images.length * tokensPerImage;
}

/** The request without its pictures, whose bytes say nothing about their tokens. */
export function textBytes({ inputBytes, images }: ChatAsk): number {
  const pictures = images.reduce((sum, { url }) => sum + url.length, 0);
  return Math.max(0, inputBytes - pictures);
}
