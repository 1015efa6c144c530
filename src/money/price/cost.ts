import {
  charactersPerToken,
  noUnits,
  noUsage,
  promptTokens,
  totalTokens,
  type Units,
  type Usage,
} from '../../core/usage.ts';
import { priceOf, tokenPrices, unitPrices } from './fee-kinds.ts';
import { type PriceList, type Prices, pricesFor } from './price-list.ts';
import { type FemtoUsd, feeToCredits, perMillion, toCredits } from './usd.ts';

/**
 * What a request costs at an endpoint's prices. Exact; rounded nowhere. Cached or not, every token
 * of a prompt counts towards its length, and the length decides on the prices of the whole.
 */
export function costOf(usage: Usage, list: PriceList, units: Units = noUnits): FemtoUsd {
  if (!list.longPrompts) return flatRateCost(usage, list, units);
  let cost = unitCost(usage, units, list);
  for (const call of units.calls ?? [usage]) {
    cost += tokenCost(call, pricesFor(list, promptTokens(call)));
  }
  return cost;
}

/** The same at prices that no length changes. */
export function flatRateCost(usage: Usage, prices: Prices, units: Units = noUnits): FemtoUsd {
  return tokenCost(usage, prices) + unitCost(usage, units, prices);
}

/** The most that a request can cost while only an upper bound of its prompt is known. */
export function maxCostOverTiers(
  list: PriceList,
  promptTokensMax: number,
  costOfTier: (prices: Prices) => FemtoUsd,
): FemtoUsd {
  let max = costOfTier(list);
  if (!list.longPrompts) return max;
  // Every step within reach, not just the last: a step may be dearer for some tokens and cheaper
  // for others.
  for (const { aboveTokens, prices } of list.longPrompts) {
    if (promptTokensMax <= aboveTokens) break;
    const cost = costOfTier(prices);
    if (cost > max) max = cost;
  }
  return max;
}

/** The same for a usage that is itself the bound. */
export function maxCost(usageMax: Usage, list: PriceList, units: Units): FemtoUsd {
  return list.longPrompts
    ? maxTierCost(usageMax, list, units)
    : flatRateCost(usageMax, list, units);
}

function maxTierCost(usageMax: Usage, list: PriceList, units: Units): FemtoUsd {
  return maxCostOverTiers(list, promptTokens(usageMax), (prices) =>
    flatRateCost(usageMax, prices, units),
  );
}

function tokenCost(usage: Usage, prices: Prices): FemtoUsd {
  let cost = 0n;
  for (const { name, quantity } of tokenPrices) {
    cost += perMillion(prices[name], quantity(usage, noUnits));
  }
  return cost;
}

/** Includes the price of the request itself. */
function unitCost(usage: Usage, units: Units, prices: Prices): FemtoUsd {
  let cost = 0n;
  for (const { name, per, quantity } of unitPrices) {
    if (prices[name] > 0n) cost += priceOf(per, prices[name], quantity(usage, units));
  }
  return cost;
}

/** Nobody has so many credits; and hundreds of such charges can still be summed exactly. */
const chargeMax = 10_000_000_000_000;

/** The model charge of a request: its cost, rounded up once. */
export function modelCharge(cost: FemtoUsd, creditsPerUsd: number): number {
  return Math.min(chargeMax, toCredits(cost, creditsPerUsd));
}

/** Who pays the provider. */
export interface BilledAccount {
  /** Set when the caller pays, from its own account: then it owes us a share of the list price. */
  readonly own?: { readonly feeBasisPoints: number } | null;
}

/** All that is charged for this cost: the model charge, or the platform fee in place of it. */
export function chargeAt({ own }: BilledAccount, cost: FemtoUsd, creditsPerUsd: number): number {
  if (!own) return modelCharge(cost, creditsPerUsd);
  return Math.min(chargeMax, feeToCredits(cost, own.feeBasisPoints, creditsPerUsd));
}

/**
 * Tokens when the upstream said nothing; the bill says that it is an estimate. Counting characters
 * costs nothing, so no text is ever tokenised on the event loop.
 */
export function estimateUsage(inputBytes: number, outputCharacters: number): Usage {
  return {
    ...noUsage,
    inputTokens: Math.ceil(inputBytes / charactersPerToken),
    outputTokens: Math.ceil(outputCharacters / charactersPerToken),
  };
}

export const unfinishedNote =
  'The provider did not count its whole answer; the tokens out are an estimate.';
/** Fits both cases: the provider reported nothing, or something that cannot be true. */
export const estimateNote =
  'The provider reported no usage that can be billed; the tokens are an estimate.';

/** Several choices and rounds of searches fill a model's context more than once. */
const contextsMax = 16;

/** What a request can have used at most; a server that miscounts must empty no wallet. */
export function credibleTokens(contextTokens: number): number {
  return contextTokens * contextsMax;
}

export function isCredible(usage: Usage, contextTokens: number): boolean {
  return totalTokens(usage) <= credibleTokens(contextTokens);
}
