import type { Call, Operation } from '../../call.ts';
import { unavailable } from '../../core/errors.ts';
import type { RequestInfo } from '../../core/request-info.ts';
import { logText } from '../../core/text.ts';
import type { Offer } from '../../route/catalog.ts';
import type { OutputBudget } from '../../upstream/stream-answer.ts';
import type { Bound, CostBounds } from '../price/bounds.ts';
import { charactersPerHeldToken, type HoldTracker } from '../price/bounds.ts';
import type { DispatchedRequest } from '../settle/journal-files.ts';
import type { Hold } from './hold.ts';
import type { HoldAmounts } from './wallets.ts';

interface ReserveDeps {
  readonly creditsPerUsd: number;
  /** Returns a promise only if it has to wait for the store. */
  hold(call: Call, amounts: HoldAmounts): Hold | Promise<Hold>;
  /** Journals that the request is about to be sent. Rejects if the journal can't be written. */
  dispatched(call: DispatchedRequest): Promise<void>;
}

/**
 * Holds credits for the most expensive offer and journals the request, before anything is sent. If
 * the caller can't pay for shared capacity, only offers with its own provider keys remain.
 * Throws 402, 503.
 */
export async function reserve(
  call: Call,
  { request, bounds }: Operation,
  plan: readonly Offer[],
  deps: ReserveDeps,
): Promise<Reservation> {
  const { creditsPerUsd } = deps;
  let offers = plan;
  // An answer that was charged before but lost must not need credits again.
  const isPaid = call.recordingSession?.inFlight.isPaid ?? false;
  let bound = isPaid ? nothing : bounds.boundFor(offers, creditsPerUsd);
  let hold: Hold;
  try {
    hold = await deps.hold(call, bound);
  } catch (rejection) {
    offers = plan.filter(({ ownAccount }) => ownAccount !== null);
    if (offers.length === 0 || offers.length === plan.length) throw rejection;
    bound = bounds.boundFor(offers, creditsPerUsd);
    hold = await deps.hold(call, bound);
  }
  const availableCredits = await availableCreditsFor(hold, bound);
  try {
    await deps.dispatched(toDispatched(call, request));
  } catch (cause) {
    await hold.settle(0);
    throw unavailable("The gateway can't write its journal. Try again shortly.", cause);
  }
  return new Reservation(offers, hold, bounds, bound.maximum, availableCredits, creditsPerUsd);
}

const nothing: Bound = { requested: 0, minimum: 0, maximum: 0 };

/**
 * Returns the most credits that the request may cost. An answer may cost more than its hold, but
 * not more than its wallet has. A hold smaller than requested has already taken everything that was
 * left.
 */
function availableCreditsFor(hold: Hold, { requested, maximum }: Bound): number | Promise<number> {
  const { credits } = hold;
  return credits < requested || credits >= maximum ? credits : hold.maxCredits(maximum);
}

/** The credits held for one request, and the output caps that follow from them. */
export class Reservation {
  /** The offers that the hold covers. */
  readonly offers: readonly Offer[];
  readonly hold: Hold;
  readonly #bounds: CostBounds;
  /** The highest cost of the request at its most expensive offer. */
  readonly #maxCredits: number;
  /** The most credits that the wallet and the key's limit can give. */
  readonly #availableCredits: number;
  readonly #creditsPerUsd: number;
  /**
   * The credits of the first hold. Searches extend the hold, but that extension doesn't pay for
   * more output.
   */
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

  /**
   * Returns the output cap that the caller can afford, or null if the caller can afford the
   * requested cap.
   */
  capFor(offer: Offer): number | null {
    const { output } = this.#bounds;
    if (!output || !this.#isShortFor(offer)) return null;
    return output.capWithin(this.#availableCredits, offer, this.#creditsPerUsd);
  }

  /** Returns the operator's output cap, or null if there is none or the client sets one. */
  defaultCapFor(offer: Offer): number | null {
    return this.#bounds.output?.defaultCapFor(offer) ?? null;
  }

  budgetFor(offer: Offer): OutputBudget {
    const maxTokens = this.#bounds.tokensMaxFor(offer);
    const charactersHardLimit = maxTokens * charactersPerHeldToken;
    const { output } = this.#bounds;
    if (!output || this.#maxCredits === 0) return unlimitedBudget(charactersHardLimit);
    const cap = this.capFor(offer);
    const tracker = output.trackHold(offer, cap, this.#initialCredits, this.#creditsPerUsd);
    return growingBudget(tracker, this.hold, charactersHardLimit);
  }

  /**
   * Returns false if the credits suffice for this offer, even if they don't for a more expensive
   * one.
   */
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

function unlimitedBudget(charactersHardLimit: number): OutputBudget {
  return {
    charactersMax: Number.POSITIVE_INFINITY,
    charactersHardLimit,
    extend: async () => true,
  };
}

/** Returns a budget that extends the hold as the answer grows. */
function growingBudget(
  tracker: HoldTracker,
  hold: Hold,
  charactersHardLimit: number,
): OutputBudget {
  const budget: OutputBudget = {
    charactersMax: tracker.charactersMax,
    charactersHardLimit,
    async extend() {
      const isCovered = await tracker.extend((requested, minimum) =>
        hold.extend(requested, minimum),
      );
      budget.charactersMax = tracker.charactersMax;
      return isCovered;
    },
  };
  return budget;
}
