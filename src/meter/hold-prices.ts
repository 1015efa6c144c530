import type { ChatAsk } from '../core/ask.ts';
import type { NanoUsd } from '../core/money.ts';
import type { PriceList, Prices } from '../core/prices.ts';

/** By what a request may have: sounds, and input that is cached for an hour, cost more. */
interface HoldPrices {
  readonly hasDearerHour: boolean;
  readonly hasDearerAudio: boolean;
  readonly usual: PriceList;
  readonly forHour: PriceList;
  readonly withAudio: PriceList;
  readonly withBoth: PriceList;
}

/**
 * A token of sound takes at least ten times the bytes that we allow for a token of text: a second
 * of sound is 32 tokens at most, and in base64 no recording has less than 1,000 bytes for a second.
 */
const lengthOfAudio = 10n;

type ReadPrice = (prices: Prices) => NanoUsd;
const usualInputs: readonly ReadPrice[] = [
  ({ cacheRead }) => cacheRead,
  ({ cacheWrite }) => cacheWrite,
];
const forAnHour: ReadPrice = ({ cacheWrite1h }) => cacheWrite1h;
/**
 * The price of sound for the bytes of one text token; rounded up, as a hold must not be too small.
 */
const ofAudio: ReadPrice = ({ audio }) => (audio + lengthOfAudio - 1n) / lengthOfAudio;

/**
 * Worked out once for each list, which lasts as long as the configuration; a request asks twice.
 */
const knownHoldPrices = new WeakMap<PriceList, HoldPrices>();

/** The prices to hold by, before anybody knows how much of the input is cached, or is sound. */
export function holdPrices(list: PriceList, ask: ChatAsk): PriceList {
  let known = knownHoldPrices.get(list);
  if (!known) {
    known = workOut(list);
    knownHoldPrices.set(list, known);
  }
  const forHour = known.hasDearerHour && ask.cachesForHour();
  const withAudio = known.hasDearerAudio && ask.needs.audio;
  if (forHour) return withAudio ? known.withBoth : known.forHour;
  return withAudio ? known.withAudio : known.usual;
}

function workOut(list: PriceList): HoldPrices {
  const levels: readonly Prices[] = [list, ...(list.longPrompts ?? []).map(({ prices }) => prices)];
  return {
    hasDearerHour: levels.some(({ cacheWrite, cacheWrite1h }) => cacheWrite1h > cacheWrite),
    hasDearerAudio: levels.some((prices) => ofAudio(prices) > prices.prompt),
    usual: dearestInputs(list, usualInputs),
    forHour: dearestInputs(list, [...usualInputs, forAnHour]),
    withAudio: dearestInputs(list, [...usualInputs, ofAudio]),
    withBoth: dearestInputs(list, [...usualInputs, forAnHour, ofAudio]),
  };
}

function dearestInputs(list: PriceList, inputs: readonly ReadPrice[]): PriceList {
  const longPrompts = list.longPrompts?.map(({ aboveTokens, prices }) => ({
    aboveTokens,
    prices: atDearestInput(prices, inputs),
  }));
  return { ...atDearestInput(list, inputs), ...(longPrompts && { longPrompts }) };
}

function atDearestInput(prices: Prices, inputs: readonly ReadPrice[]): Prices {
  let dearest = prices.prompt;
  for (const priceOf of inputs) {
    const price = priceOf(prices);
    if (price > dearest) dearest = price;
  }
  return { ...prices, prompt: dearest };
}
