import {
  charactersPerToken,
  noUnits,
  noUsage,
  promptTokens,
  type Units,
  type Usage,
} from '../../core/usage.ts';
import { priceOf, tokenPrices, unitPrices } from './price-classes.ts';
import { type PriceList, type Prices, pricesFor } from './price-list.ts';
import { feeToCredits, perMillion, toCredits, type UsdAmount } from './usd.ts';

/**
 * Returns the exact cost of a request at an endpoint's prices. All prompt tokens, cached or not,
 * count toward the length that selects the price tier of the whole request.
 */
export function costOf(usage: Usage, list: PriceList, units: Units = noUnits): UsdAmount {
  if (!list.longPrompts) return flatRateCost(usage, list, units);
  let cost = unitCost(usage, units, list);
  for (const call of units.calls ?? [usage]) {
    cost += tokenCost(call, pricesFor(list, promptTokens(call)));
  }
  return cost;
}

/** Returns the exact cost at prices without tiers. */
export function flatRateCost(usage: Usage, prices: Prices, units: Units = noUnits): UsdAmount {
  return tokenCost(usage, prices) + unitCost(usage, units, prices);
}

/** Returns the highest cost over all tiers that a prompt of at most this length can reach. */
export function maxCostOverTiers(
  list: PriceList,
  promptTokensMax: number,
  costOfTier: (prices: Prices) => UsdAmount,
): UsdAmount {
  let max = costOfTier(list);
  if (!list.longPrompts) return max;
  // Check every reachable tier, not only the last: a tier may raise some prices and lower others.
  for (const { aboveTokens, prices } of list.longPrompts) {
    if (promptTokensMax <= aboveTokens) break;
    const cost = costOfTier(prices);
    if (cost > max) max = cost;
  }
  return max;
}

/** Returns the highest cost that any usage up to this maximum can have. */
export function maxCost(usageMax: Usage, list: PriceList, units: Units): UsdAmount {
  return list.longPrompts
    ? maxTierCost(usageMax, list, units)
    : flatRateCost(usageMax, list, units);
}

function maxTierCost(usageMax: Usage, list: PriceList, units: Units): UsdAmount {
  return maxCostOverTiers(list, promptTokens(usageMax), (prices) =>
    flatRateCost(usageMax, prices, units),
  );
}

function tokenCost(usage: Usage, prices: Prices): UsdAmount {
  let cost = 0n;
  for (const { name, quantity } of tokenPrices) {
    cost += perMillion(prices[name], quantity(usage, noUnits));
  }
  return cost;
}

/** Includes the price of the request itself. */
function unitCost(usage: Usage, units: Units, prices: Prices): UsdAmount {
  let cost = 0n;
  for (const { name, per, quantity } of unitPrices) {
    if (prices[name] > 0n) cost += priceOf(per, prices[name], quantity(usage, units));
  }
  return cost;
}

/** More than any wallet has, but small enough to sum hundreds of charges exactly. */
const chargeMax = 10_000_000_000_000;

/** Returns the model charge for a cost, rounded up. */
export function modelCharge(cost: UsdAmount, creditsPerUsd: number): number {
  return Math.min(chargeMax, toCredits(cost, creditsPerUsd));
}

/** Whose provider account pays for a request. */
export interface BilledAccount {
  /** Set if the caller pays the provider and owes the gateway a share of the list price. */
  readonly ownAccount?: { readonly feeBasisPoints: number } | null;
}

/** Returns the model charge for a cost, or the platform fee if the caller pays the provider. */
export function chargeAt(
  { ownAccount }: BilledAccount,
  cost: UsdAmount,
  creditsPerUsd: number,
): number {
  if (!ownAccount) return modelCharge(cost, creditsPerUsd);
  return Math.min(chargeMax, feeToCredits(cost, ownAccount.feeBasisPoints, creditsPerUsd));
}

/**
 * Estimates tokens for an answer without reported usage. Divides character counts, because
 * tokenizing would block the event loop.
 */
export function estimateUsage(inputBytes: number, outputCharacters: number): Usage {
  return {
    ...noUsage,
    inputTokens: Math.ceil(inputBytes / charactersPerToken),
    outputTokens: Math.ceil(outputCharacters / charactersPerToken),
  };
}

/** Assumed if the catalog has no context length for a model. */
const defaultContextTokens = 1_000_000;
/**
 * The smallest context assumed, because providers may count more tokens than were sent, and an
 * operator may have configured a context that is too small.
 */
const minContextTokens = 128_000;
/** Several choices and search rounds can fill a model's context more than once. */
const contextsMax = 16;
/**
 * Providers add instructions, tool descriptions, and message formats to a prompt. Recorded answers
 * to a few words have up to 14,000 input tokens.
 */
export const addedInputTokensMax = 32_768;

/** The limits of a model, as far as the catalog has them. */
interface ModelLimits {
  readonly context_length?: number | undefined;
  readonly max_completion_tokens?: number | undefined;
}

/** Returns the context length of a model, or an assumption if the catalog has none. */
export function contextTokensOf(model: ModelLimits): number {
  const { context_length = defaultContextTokens, max_completion_tokens = 0 } = model;
  return Math.max(minContextTokens, context_length, max_completion_tokens);
}

/** Returns the most tokens that all calls of a chat request can use together. */
export function chatTokensMax(model: ModelLimits): number {
  return contextTokensOf(model) * contextsMax;
}
