import type { Call, Errand } from './call.ts';
import type { Ask } from './core/ask.ts';
import { unavailable } from './core/errors.ts';
import { logText } from './core/log-text.ts';
import type { Hold } from './ledger/hold.ts';
import type { Dispatched } from './ledger/journal-lines.ts';
import type { HoldOrder } from './ledger/wallets.ts';
import type { Bound, CostBounds } from './meter/bound.ts';
import { credibleTokens } from './meter/credible.ts';
import { charactersPerOpenToken, type Growth } from './meter/growth.ts';
import type { Offer } from './route/catalogue.ts';
import type { OutputBudget } from './upstream/stream-answer.ts';

/** Credits are set aside before anything is sent anywhere. */

interface ReserveParts {
  readonly creditsPerUsd: number;
  hold(call: Call, order: HoldOrder): Hold | Promise<Hold>;
  /** Writes down that the request is about to be sent; rejects when that is impossible. */
  dispatched(call: Dispatched): Promise<void>;
}

/**
 * Sets credits aside for the dearest offer. A caller who cannot pay for shared capacity may still
 * use an account of its own; then the shared offers are left out.
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
  const reachCredits = await reachOf(hold, bound);
  try {
    await parts.dispatched(dispatchedOf(call, ask));
  } catch (cause) {
    await hold.settle(0);
    throw unavailable('Tollgate cannot write its journal right now, so it sends nothing.', cause);
  }
  return new Reservation(offers, hold, bounds, bound.most, reachCredits, creditsPerUsd);
}

/**
 * The most credits the request may cost: an answer may outgrow its hold, but not its wallet. A hold
 * that is smaller than wanted shows that there is no more.
 */
function reachOf(hold: Hold, { wanted, most }: Bound): number | Promise<number> {
  const { credits } = hold;
  return credits < wanted || credits >= most ? credits : hold.reach(most);
}

export class Reservation {
  /** The offers of the plan that the hold covers. */
  readonly offers: readonly Offer[];
  readonly hold: Hold;
  readonly #bounds: CostBounds;
  /** What the request costs at most at the dearest offer. */
  readonly #mostCredits: number;
  /** What the wallet and the key's limit can give for the request. */
  readonly #reachCredits: number;
  readonly #creditsPerUsd: number;
  /** What was set aside at first. Searches add to the hold, but do not make the answer longer. */
  readonly #firstCredits: number;

  constructor(
    offers: readonly Offer[],
    hold: Hold,
    bounds: CostBounds,
    mostCredits: number,
    reachCredits: number,
    creditsPerUsd: number,
  ) {
    this.offers = offers;
    this.hold = hold;
    this.#bounds = bounds;
    this.#mostCredits = mostCredits;
    this.#reachCredits = reachCredits;
    this.#creditsPerUsd = creditsPerUsd;
    this.#firstCredits = hold.credits;
  }

  /** The output cap to send to an offer; null where the client's own cap is affordable. */
  capFor(offer: Offer): number | null {
    if (!this.#isShortFor(offer)) return null;
    return this.#bounds.capWithin(this.#reachCredits, offer, this.#creditsPerUsd);
  }

  /** The output cap where credits set none: the operator's, if the client named none either. */
  usualCapFor(offer: Offer): number | null {
    return this.#bounds.usualCapAt(offer);
  }

  budgetFor(offer: Offer): OutputBudget {
    const cap = this.capFor(offer);
    const growth = this.#bounds.growthAt(offer, cap, this.#firstCredits, this.#creditsPerUsd);
    const most = credibleTokens(this.#bounds.contextTokensAt(offer));
    return budgetOf(growth, this.hold, most * charactersPerOpenToken);
  }

  /** Credits that are too few for the dearest offer may be enough for this one. */
  #isShortFor(offer: Offer): boolean {
    if (this.#reachCredits >= this.#mostCredits) return false;
    return this.#reachCredits < this.#bounds.over([offer], this.#creditsPerUsd).most;
  }
}

function dispatchedOf(call: Call, ask: Ask): Dispatched {
  return {
    requestId: call.requestId,
    tenantId: call.caller.tenantId,
    keyId: call.caller.keyId,
    operation: ask.operation,
    jobId: call.jobId,
    requestedModel: logText(ask.models[0] ?? ''),
    streamed: ask.stream,
    createdAt: call.receivedAt,
  };
}

/** How far an answer may go on its hold, and how it gets more. */
function budgetOf(growth: Growth | null, hold: Hold, charactersEnd: number): OutputBudget {
  if (!growth) {
    return { charactersMax: Number.POSITIVE_INFINITY, charactersEnd, extend: async () => true };
  }
  const budget: OutputBudget = {
    charactersMax: growth.charactersMax,
    charactersEnd,
    async extend() {
      const isPaid = await growth.extend((wanted, least) => hold.extend(wanted, least));
      budget.charactersMax = growth.charactersMax;
      return isPaid;
    },
  };
  return budget;
}
