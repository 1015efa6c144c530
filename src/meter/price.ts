import {
  type FemtoUsd,
  perMillion,
  perMinute,
  perUnit,
  shareToCredits,
  toCredits,
} from '../core/money.ts';
import type { Prices } from '../core/prices.ts';
import { noUnits, type Units, type Usage } from '../core/usage.ts';

/** What a request costs at an endpoint's prices. Exact; rounded nowhere. */
export function costOf(usage: Usage, prices: Prices, units: Units = noUnits): FemtoUsd {
  const tokens =
    perMillion(prices.prompt, usage.inputTokens) +
    perMillion(prices.cacheRead, usage.cacheReadTokens) +
    perMillion(prices.cacheWrite, usage.cacheWriteTokens) +
    perMillion(prices.completion, usage.outputTokens) +
    perUnit(prices.request, 1);
  return units === noUnits ? tokens : tokens + unitCost(units, prices);
}

function unitCost(units: Units, prices: Prices): FemtoUsd {
  return (
    perUnit(prices.image, units.inputImages ?? 0) +
    perUnit(prices.outputImage, units.outputImages ?? 0) +
    perMillion(prices.characters, units.characters ?? 0) +
    perMillion(prices.bytes, units.bytes ?? 0) +
    perMinute(prices.minute, units.audioMs ?? 0)
  );
}

/** Nobody has so many credits; and hundreds of such charges can still be summed exactly. */
const chargeMax = 10_000_000_000_000;

/** The model charge of a request: its cost, rounded up once. */
export function modelCharge(cost: FemtoUsd, creditsPerUsd: number): number {
  return Math.min(chargeMax, toCredits(cost, creditsPerUsd));
}

/** Who pays the provider. */
export interface Payer {
  /** Set when the caller does, from its own account: here it owes a share of the list price. */
  readonly own?: { readonly feeBasisPoints: number } | null;
}

/** All that is charged for a cost there: the model charge, or the platform fee in place of it. */
export function chargeAt({ own }: Payer, cost: FemtoUsd, creditsPerUsd: number): number {
  if (!own) return modelCharge(cost, creditsPerUsd);
  return Math.min(chargeMax, shareToCredits(cost, own.feeBasisPoints, creditsPerUsd));
}
