import type { ChatAsk } from '../core/chat.ts';
import type { PriceList } from '../core/long-prompts.ts';
import type { Prices } from '../core/prices.ts';

interface HoldPrices {
  readonly usual: PriceList;
  /** For requests that want something cached for an hour: only they pay what that costs. */
  readonly forHour: PriceList;
}

/** Worked out once for each list: it lasts as long as the configuration, a request asks twice. */
const knownHoldPrices = new WeakMap<PriceList, HoldPrices>();

/** A list's prices before anybody knows how much of the input a cache will read or write. */
export function holdPrices(list: PriceList, ask: ChatAsk): PriceList {
  let known = knownHoldPrices.get(list);
  if (!known) {
    const usual = dearestInputs(list, false);
    known = { usual, forHour: hasDearerHour(list) ? dearestInputs(list, true) : usual };
    knownHoldPrices.set(list, known);
  }
  const { usual, forHour } = known;
  return forHour === usual || !ask.cachesForHour() ? usual : forHour;
}

function hasDearerHour(list: PriceList): boolean {
  const levels: readonly Prices[] = [list, ...(list.longPrompts ?? []).map(({ prices }) => prices)];
  return levels.some(({ cacheWrite, cacheWrite1h }) => cacheWrite1h > cacheWrite);
}

function dearestInputs(list: PriceList, cachesForHour: boolean): PriceList {
  const longPrompts = list.longPrompts?.map(({ aboveTokens, prices }) => ({
    aboveTokens,
    prices: atDearestInput(prices, cachesForHour),
  }));
  return { ...atDearestInput(list, cachesForHour), ...(longPrompts && { longPrompts }) };
}

function atDearestInput(prices: Prices, cachesForHour: boolean): Prices {
  const { prompt, cacheRead, cacheWrite, cacheWrite1h } = prices;
  const cached = cachesForHour ? [cacheRead, cacheWrite, cacheWrite1h] : [cacheRead, cacheWrite];
  const dearest = cached.reduce((most, price) => (price > most ? price : most), prompt);
  return { ...prices, prompt: dearest };
}
