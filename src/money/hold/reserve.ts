import type { Call, Operation } from '../../call.ts';
import { unavailable } from '../../core/errors.ts';
import type { RequestInfo } from '../../core/request-info.ts';
import { logText } from '../../core/text.ts';
import type { Offer } from '../../route/catalog.ts';
import type { OutputBudget } from '../../upstream/stream-answer.ts';
import type { Bound, CostBounds } from '../price/bounds.ts';
import { charactersPerOpenToken, type Growth } from '../price/bounds.ts';
import { credibleTokens } from '../price/cost.ts';
import type { DispatchedRequest } from '../settle/journal-files.ts';
import type { Hold } from './hold.ts';
import type { HoldAmounts } from './wallets.ts';

/** Credits are set aside before anything is sent anywhere. */

interface ReserveDeps {
  readonly creditsPerUsd: number;
  hold(call: Call, order: HoldAmounts): Hold | Promise<Hold>;
  /** Writes down that the request is about to be sent; rejects when that is impossible. */
  dispatched(call: DispatchedRequest): Promise<void>;
}

/**
 * Sets credits aside for the dearest offer. A caller who cannot pay for shared capacity may still
 * use an account of its own; then the shared offers are left out.
 */
export async function reserve(
  call: Call,
  { request, bounds }: Operation,
  plan: readonly Offer[],
  deps: ReserveDeps,
): Promise<Reservation> {
  const { creditsPerUsd } = deps;
  let offers = plan;
  let bound = bounds.boundFor(offers, creditsPerUsd);
  let hold: Hold;
  try {
    hold = await deps.hold(call, bound);
  } catch (refusal) {
    offers = plan.filter(({ own }) => own !== null);
    if (offers.length === 0 || offers.length === plan.length) throw refusal;
    bound = bounds.boundFor(offers, creditsPerUsd);
    hold = await deps.hold(call, bound);
  }
  const availableCredits = await availableCreditsFor(hold, bound);
  try {
    await deps.dispatched(toDispatched(call, request));
  } catch (cause) {
    await hold.settle(0);
    throw unavailable('Tollgate cannot write its journal right now, so it sends nothing.', cause);
  }
  return new Reservation(offers, hold, bounds, bound.maximum, availableCredits, creditsPerUsd);
}

/**
 * The most credits the request may cost: an answer may outgrow its hold, but not its wallet. A hold
 * that is smaller than wanted shows that there is no more.
 */
function availableCreditsFor(
  hold: Hold,
  { requested, maximum: most }: Bound,
): number | Promise<number> {
  const { credits } = hold;
  return credits < requested || credits >= most ? credits : hold.maxCredits(most);
}

export class Reservation {
  /** The offers of the plan that the hold covers. */
  readonly offers: readonly Offer[];
  readonly hold: Hold;
  readonly #bounds: CostBounds;
  /** What the request costs at most at the dearest offer. */
  readonly #maxCredits: number;
  /** What the wallet and the key's limit can give for the request. */
  readonly #availableCredits: number;
  readonly #creditsPerUsd: number;
  /** What was set aside at first. Searches add to the hold, but do not make the answer longer. */
  readonly #initialCredits: number;

  constructor(
    offers: readonly Offer[],
    hold: Hold,
    bounds: CostBounds,
    maxCredits: number,
    availableCredits: number,
    creditsPerUsd: number,
  ) {
    this.offers = offers;
    this.hold = hold;
    this.#bounds = bounds;
    this.#maxCredits = maxCredits;
    this.#availableCredits = availableCredits;
    this.#creditsPerUsd = creditsPerUsd;
    this.#initialCredits = hold.credits;
  }

  /** The output cap to send to an offer; null where the client's own cap is affordable. */
  capFor(offer: Offer): number | null {
    if (!this.#isShortFor(offer)) return null;
    return this.#bounds.capWithin(this.#availableCredits, offer, this.#creditsPerUsd);
  }

  /** The output cap where credits set none: the operator's, if the client named none either. */
  defaultCapFor(offer: Offer): number | null {
    return this.#bounds.defaultCapFor(offer);
  }

  budgetFor(offer: Offer): OutputBudget {
    const cap = this.capFor(offer);
    const growth = this.#bounds.growthFor(offer, cap, this.#initialCredits, this.#creditsPerUsd);
    const maxTokens = credibleTokens(this.#bounds.contextTokensFor(offer));
    return budgetOf(growth, this.hold, maxTokens * charactersPerOpenToken);
  }

  /** Credits that are too few for the dearest offer may be enough for this one. */
  #isShortFor(offer: Offer): boolean {
    if (this.#availableCredits >= this.#maxCredits) return false;
    return this.#availableCredits < this.#bounds.boundFor([offer], this.#creditsPerUsd).maximum;
  }
}

function toDispatched(call: Call, request: RequestInfo): DispatchedRequest {
  return {
    requestId: call.requestId,
    tenantId: call.caller.tenantId,
    keyId: call.caller.keyId,
    operation: request.operationName,
    jobId: call.jobId,
    requestedModel: logText(request.models[0] ?? ''),
    streamed: request.stream,
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
      const isPaid = await growth.extend((requested, least) => hold.extend(requested, least));
      budget.charactersMax = growth.charactersMax;
      return isPaid;
    },
  };
  return budget;
}
