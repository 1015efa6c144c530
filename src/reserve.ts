import type { Call, Errand } from './call.ts';
import type { Ask } from './core/ask.ts';
import { GatewayError } from './core/errors.ts';
import { logText } from './core/log-text.ts';
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

/**
 * Sets credits aside for the dearest offer. Who cannot pay for shared capacity may still use an
 * account of its own, without the shared one behind it.
 */
export async function reserve(
  call: Call,
  { ask, bounds }: Errand,
  plan: readonly Offer[],
  parts: ReserveParts,
): Promise<Reservation> {
  const { creditsPerUsd } = parts;
  let offers = plan;
  let bound = bounds.over(offers, creditsPerUsd);
  let hold: Hold;
  try {
    hold = await parts.hold(call, bound);
  } catch (refusal) {
    offers = plan.filter(({ own }) => own !== null);
    if (offers.length === 0 || offers.length === plan.length) throw refusal;
    bound = bounds.over(offers, creditsPerUsd);
    hold = await parts.hold(call, bound);
  }
  try {
    await parts.dispatched(dispatchedOf(call, ask));
  } catch (cause) {
    await hold.settle(0);
    const message = 'Tollgate cannot write its journal right now, so it sends nothing.';
    throw new GatewayError('service_unavailable', message, { retryAfterSeconds: 2, cause });
  }
  return new Reservation(offers, hold, bound, bounds, creditsPerUsd);
}

export class Reservation {
  /** Those of the plan that the hold is for. */
  readonly offers: readonly Offer[];
  readonly hold: Hold;
  readonly #bound: Bound;
  readonly #bounds: CostBounds;
  readonly #creditsPerUsd: number;

  constructor(
    offers: readonly Offer[],
    hold: Hold,
    bound: Bound,
    bounds: CostBounds,
    creditsPerUsd: number,
  ) {
    this.offers = offers;
    this.hold = hold;
    this.#bound = bound;
    this.#bounds = bounds;
    this.#creditsPerUsd = creditsPerUsd;
  }

  /** The output cap for one offer: null where the client's own is affordable. */
  capFor(offer: Offer): number | null {
    const { credits } = this.hold;
    if (!this.#isShortFor(offer)) return null;
    return this.#bounds.capWithin(credits, offer, this.#creditsPerUsd);
  }

  budgetFor(offer: Offer): OutputBudget {
    const growth = this.#bounds.growthAt(offer, this.capFor(offer), this.#creditsPerUsd);
    return budgetOf(growth, this.hold);
  }

  /** A hold that is too small for the dearest offer may well do for another. */
  #isShortFor(offer: Offer): boolean {
    const { credits } = this.hold;
    if (credits >= this.#bound.wanted) return false;
    return credits < this.#bounds.over([offer], this.#creditsPerUsd).wanted;
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
