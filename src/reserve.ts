import type { Ask } from './core/ask.ts';
import { GatewayError } from './core/errors.ts';
import { logText } from './core/log-text.ts';
import type { Call, Errand } from './gateway.ts';
import type { Hold } from './ledger/hold.ts';
import type { Dispatched } from './ledger/journal-lines.ts';
import type { HoldOrder } from './ledger/wallets.ts';
import type { Bound, CostBounds, Growth } from './meter/bound.ts';
import type { Offer } from './route/catalogue.ts';
import type { OutputBudget } from './upstream/relay.ts';

/** The beginning of the money's story: credits set aside before anything is sent anywhere. */

export interface ReserveParts {
  readonly creditsPerUsd: number;
  hold(call: Call, order: HoldOrder): Hold | Promise<Hold>;
  /** Writes down that the request is about to be sent; rejects when that is impossible. */
  dispatched(call: Dispatched): Promise<void>;
}

export interface Reservation {
  readonly hold: Hold;
  /** Those of the plan that the hold is for. */
  readonly offers: readonly Offer[];
  /** The output cap for one offer: null where the client's own is affordable. */
  capFor(offer: Offer): number | null;
  budgetFor(offer: Offer): OutputBudget;
}

export async function reserve(
  call: Call,
  { ask, bounds }: Errand,
  plan: readonly Offer[],
  parts: ReserveParts,
): Promise<Reservation> {
  const { creditsPerUsd } = parts;
  const { offers, bound, hold } = await holdFor(call, bounds, plan, parts);
  try {
    await parts.dispatched(dispatchedOf(call, ask));
  } catch (cause) {
    await hold.settle(0);
    const message = 'Tollgate cannot write its journal right now, so it sends nothing.';
    throw new GatewayError('service_unavailable', message, { retryAfterSeconds: 2, cause });
  }
  // A hold that is too small for the dearest offer may well do for another.
  const isShortFor = (offer: Offer) =>
    hold.credits < bound.wanted && hold.credits < bounds.over([offer], creditsPerUsd).wanted;
  const capFor = (offer: Offer) =>
    isShortFor(offer) ? bounds.capWithin(hold.credits, offer, creditsPerUsd) : null;
  return {
    hold,
    offers,
    capFor,
    budgetFor: (offer) => budgetOf(bounds.growthAt(offer, capFor(offer), creditsPerUsd), hold),
  };
}

/**
 * Sets credits aside for the dearest offer. Who cannot pay for shared capacity may still use an
 * account of its own, without the shared one behind it.
 */
async function holdFor(
  call: Call,
  bounds: CostBounds,
  plan: readonly Offer[],
  { creditsPerUsd, hold }: ReserveParts,
): Promise<{ offers: readonly Offer[]; bound: Bound; hold: Hold }> {
  const bound = bounds.over(plan, creditsPerUsd);
  try {
    return { offers: plan, bound, hold: await hold(call, bound) };
  } catch (refusal) {
    const offers = plan.filter(({ own }) => own !== null);
    if (offers.length === 0 || offers.length === plan.length) throw refusal;
    const fees = bounds.over(offers, creditsPerUsd);
    return { offers, bound: fees, hold: await hold(call, fees) };
  }
}

function dispatchedOf(call: Call, ask: Ask): Dispatched {
  return {
    requestId: call.requestId,
    tenantId: call.caller.tenantId,
    keyId: call.caller.keyId,
    operation: ask.operation,
    requestedModel: logText(ask.models[0] ?? ''),
    streamed: ask.stream,
    createdAt: call.receivedAt,
  };
}

/** How far an answer may go on its hold, and how it gets more. */
function budgetOf(growth: Growth | null, hold: Hold): OutputBudget {
  if (!growth) return { charactersMax: Number.POSITIVE_INFINITY, extend: async () => true };
  const budget: OutputBudget = {
    charactersMax: growth.charactersMax,
    async extend() {
      if (!(await hold.extend(growth.stepCredits))) return false;
      budget.charactersMax += growth.stepCharacters;
      return true;
    },
  };
  return budget;
}
