import { strict as assert } from 'node:assert';
import type { Booked, LeaseResult, Owner } from '../ledger.ts';

/** The result of taking credits from a lease balance. */
export type TakeResult =
  | { readonly kind: 'taken'; readonly credits: number }
  | { readonly kind: 'short'; readonly available: number }
  /** There are too few credits until these ones return, at the latest after this time. */
  | ({ readonly kind: 'silent' } & SilentCredits)
  /** The lease is used up and the store is unreachable. */
  | { readonly kind: 'unavailable' };

/** Credits leased to processes that don't respond. They return when the first lease expires. */
export interface SilentCredits {
  readonly credits: number;
  readonly returnInSeconds: number;
}

/** The longest wait for a slow store, or for credits that other processes have leased. */
const waitMsMax = 5_000;
/**
 * A wait that times out reports a shortage if the store reported one at most this long ago.
 * Otherwise, it reports an unavailable store.
 */
const shortFreshMs = 10_000;

/** The credits that waiting requests need, evaluated again as credits come and go. */
export interface CreditNeed {
  /** Returns the credits to request from the store for all requests that wait now. */
  creditsToRequest(): number;
  /** Returns the credits still missing for the requests included in the last call. */
  missing(): number;
  /** The size of one request's hold. */
  readonly oneHold: number;
}

type Refill = (balance: LeaseBalance, need: CreditNeed) => Promise<void>;

interface Waiter {
  readonly requested: number;
  readonly minimum: number;
  readonly resolve: (result: TakeResult) => void;
}

/**
 * The credits of one account that this process has leased. Requests take and release them in
 * memory. The store is called for more only if they run out.
 *
 * free = leased − held − owed. Owed credits are settled but not committed yet.
 */
export class LeaseBalance {
  /** Replaced when a key's limit changes. The store applies the new limit with the next lease. */
  owner: Owner;
  readonly #refill: Refill;
  readonly #waitMs: number;
  readonly #waiting = new Set<Waiter>();
  /** The number of the current lease. Results about earlier leases are ignored. */
  #lease = 0;
  /** Leases up to this number have ended in the store. */
  #lost = 0;
  #leased = 0;
  #held = 0;
  #owed = 0;
  #serving = false;
  #inDoubt = false;
  /** Charges committed since a new lease was requested, from either the old or the new lease. */
  #unattributed = 0;
  /** When the store last had fewer credits than requested, by the monotonic clock. */
  #shortAt = Number.NEGATIVE_INFINITY;
  /** Set if the store last had fewer credits than requested because of these. */
  #silent: SilentCredits | undefined;

  /** `refill` leases credits and calls `granted`. It rejects if the store is unreachable. */
  constructor(owner: Owner, refill: Refill, waitMs = waitMsMax) {
    this.owner = owner;
    this.#refill = refill;
    this.#waitMs = waitMs;
  }

  get free(): number {
    return this.#leased - this.#held - this.#owed;
  }

  get lease(): number {
    return this.#lease;
  }

  get leased(): number {
    return this.#leased;
  }

  get held(): number {
    return this.#held;
  }

  get owed(): number {
    return this.#owed;
  }

  /** True if a response was lost, so the store's current lease may be a different one. */
  get inDoubt(): boolean {
    return this.#inDoubt;
  }

  get idle(): boolean {
    return this.#held === 0 && this.#owed === 0 && this.#waiting.size === 0 && !this.#serving;
  }

  /**
   * Takes `requested` credits, or fewer, but at least `minimum`. Returns a promise only if the
   * leased credits don't suffice.
   */
  take(requested: number, minimum: number): TakeResult | Promise<TakeResult> {
    if (requested < minimum || minimum < 0)
      assert.fail("The minimum can't be above the requested credits.");
    // A free request needs no credits, even if the lease was lost.
    if (requested === 0) return this.#grant(0);
    if (this.#waiting.size === 0 && this.free >= requested) return this.#grant(requested);
    return this.#queue(requested, minimum);
  }

  /** Starts a new lease if the current one is in doubt. */
  async replaceIfInDoubt(): Promise<void> {
    if (this.#inDoubt) await this.#queue(0, 0);
  }

  /** Releases held credits that a request doesn't need. */
  release(credits: number): void {
    this.#held -= credits;
    if (this.#held < 0) assert.fail('Released more credits than were held.');
  }

  /** Replaces a request's hold with its charge, which is owed until it is committed. */
  settle(held: number, charge: number): void {
    this.release(held);
    this.#owed += charge;
  }

  /** Removes an owed charge that won't be committed. */
  cancelCharge(charge: number): void {
    this.#owed -= charge;
  }

  /** Records that a commit took a charge out of the account, and usually out of this lease. */
  booked(charge: number, fromLease: Booked['fromLease']): void {
    this.#owed -= charge;
    if (fromLease === null) {
      // Until a new lease starts, assume that the entire charge came out of our lease.
      this.#leased -= charge;
      this.#unattributed += charge;
      this.#inDoubt = true;
    } else if (this.#adopt(fromLease.lease)) {
      this.#leased -= fromLease.credits;
    }
  }

  /** Called before a new lease is requested. Nothing is in doubt about a new lease. */
  startNewLease(): void {
    this.#inDoubt = false;
    this.#unattributed = 0;
  }

  /** Records that the store added credits to our lease: all that were requested, or fewer. */
  granted({ granted, lease }: LeaseResult, requested: number, silent?: SilentCredits): void {
    // A request of 0 credits only reads the balance.
    if (requested > 0) {
      this.#shortAt = granted < requested ? performance.now() : Number.NEGATIVE_INFINITY;
      this.#silent = silent;
    }
    if (this.#adopt(lease)) this.#leased += granted;
    // If calls overtook each other, the store may still count a lease that this process considers
    // ended.
    else this.#inDoubt = true;
    if (granted > 0) this.#grantWaiting();
  }

  /** Removes the free credits from the lease. The caller returns them to the store. */
  returnFree(): { readonly lease: number; readonly credits: number } {
    const credits = Math.max(0, this.free);
    this.#leased -= credits;
    return { lease: this.#lease, credits };
  }

  /** Records that a call to the store failed, so its effect is unknown. */
  markInDoubt(lease: number): void {
    if (lease === this.#lease) this.#inDoubt = true;
  }

  /** Records that the store ended our lease. Credits of running requests are leased again. */
  markLost(): void {
    this.#lost = this.#lease;
    this.#leased = 0;
  }

  /** Switches to a newer lease, which starts at 0. Returns false for a lease that has ended. */
  #adopt(lease: number): boolean {
    if (lease > this.#lease) {
      this.#lease = lease;
      this.#leased = -this.#unattributed;
    }
    return lease === this.#lease && lease > this.#lost;
  }

  #grant(credits: number): TakeResult {
    this.#held += credits;
    return { kind: 'taken', credits };
  }

  #queue(requested: number, minimum: number): Promise<TakeResult> {
    const { promise, resolve } = Promise.withResolvers<TakeResult>();
    const waiter: Waiter = { requested, minimum, resolve };
    this.#waiting.add(waiter);
    const timer = setTimeout(() => this.#timeOut(waiter), this.#waitMs);
    void this.#serve();
    return promise.finally(() => clearTimeout(timer));
  }

  #timeOut(waiter: Waiter): void {
    const isShort = performance.now() - this.#shortAt < shortFreshMs;
    if (this.#waiting.delete(waiter)) waiter.resolve(this.#grantUpTo(waiter, isShort));
  }

  /** Serves waiters in order. One call to the store serves all that wait when it starts. */
  async #serve(): Promise<void> {
    if (this.#serving) return;
    this.#serving = true;
    for (const first of this.#waiting) {
      // Requests that arrive after a call has started are included in the next one.
      let included: readonly Waiter[] = [];
      const missing = () => {
        const remaining = included.filter((waiter) => this.#waiting.has(waiter));
        return remaining.reduce((sum, waiter) => sum + waiter.requested, 0) - this.free;
      };
      const creditsToRequest = () => {
        included = [...this.#waiting];
        // If the lease is in doubt, request all its credits again, including the free ones, because
        // they may be granted during the call.
        return this.#inDoubt ? this.#leased + Math.max(0, missing()) : missing();
      };
      const isAnswered = await this.#requestRefill({
        creditsToRequest,
        missing,
        oneHold: first.requested,
      });
      for (const waiter of included) {
        if (this.#waiting.delete(waiter)) waiter.resolve(this.#grantUpTo(waiter, isAnswered));
      }
    }
    this.#serving = false;
  }

  /** Returns false if the store was unreachable. */
  async #requestRefill(need: CreditNeed): Promise<boolean> {
    if (need.creditsToRequest() <= 0 && !this.#inDoubt) return true;
    try {
      await this.#refill(this, need);
      return true;
    } catch {
      return false;
    }
  }

  /** Grants credits to waiters at once, because other processes may recall free credits. */
  #grantWaiting(): void {
    for (const waiter of this.#waiting) {
      if (this.free < waiter.requested) return;
      this.#waiting.delete(waiter);
      waiter.resolve(this.#grant(waiter.requested));
    }
  }

  #grantUpTo({ requested, minimum }: Waiter, isAnswered: boolean): TakeResult {
    const { free } = this;
    if (free >= requested || requested === 0) return this.#grant(requested);
    if (free >= minimum && free > 0) return this.#grant(free);
    if (!isAnswered) return { kind: 'unavailable' };
    const available = Math.max(0, free + (this.#silent?.credits ?? 0));
    return this.#silent && available >= minimum
      ? { kind: 'silent', ...this.#silent }
      : { kind: 'short', available };
  }
}
