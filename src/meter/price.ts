import { type FemtoUsd, perMillion, perUnit, toCredits } from '../core/money.ts';
import type { Prices } from '../core/prices.ts';
import type { Usage } from '../core/usage.ts';

/** What tokens and the request itself cost at an endpoint's prices. Exact; rounded nowhere. */
export function tokenCost(usage: Usage, prices: Prices, inputImages = 0): FemtoUsd {
  return (
    perMillion(prices.prompt, usage.inputTokens) +
    perMillion(prices.cacheRead, usage.cacheReadTokens) +
    perMillion(prices.cacheWrite, usage.cacheWriteTokens) +
    perMillion(prices.completion, usage.outputTokens) +
    perUnit(prices.image, inputImages) +
    perUnit(prices.request, 1)
  );
}

/** The model charge of a request: its cost, rounded up once. */
export function modelCharge(cost: FemtoUsd, creditsPerUsd: number): number {
  return toCredits(cost, creditsPerUsd);
}
