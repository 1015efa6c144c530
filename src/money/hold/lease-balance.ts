import { strict as assert } from 'node:assert';
import type { Booked, LeaseResult, Owner } from '../ledger.ts';

/** What a purse answers to a request for credits. */
export type TakeResult =
  | { readonly kind: 'taken'; readonly credits: number }
  | { readonly kind: 'short'; readonly available: number }
  /** The lease is used up and the store cannot be asked. */
  | { readonly kind: 'unavailable' };

/**
 * The longest that a request waits for credits that others have on lease, or for a slow store:
 * where trips are slow and many processes want one account, they stand in line at its lock.
 */
const waitMsMax = 5_000;
/** After that wait a request goes by the store's last answer, if that is no older than this. */
const shortFreshMs = 10_000;

/** What those who wait need; `missing` is looked at again as credits come and go. */
export interface CreditNeed {
  /** What to ask the store for now, on behalf of all who wait at this moment. */
  creditsToRequest(): number;
  /** What is still missing for those on whose behalf the store was last asked. */
  missing(): number;
  readonly oneHold: number;
}

type Refill = (balance: LeaseBalance, need: CreditNeed) => Promise<void>;

interface Waiter {
  readonly requested: number;
  readonly minimum: number;
  readonly resolve: (result: TakeResult) => void;
}

/**
 * The part of one account that this process has on lease, counted in memory. Requests take from it
 * and give back to it without touching the store; only when it runs low does somebody ask for more.
 *
 * free = leased − held − owed, where owed is settled but not yet drained.
 */
export class LeaseBalance {
  /** A key's limit may change while requests run; the store adjusts with the next lease. */
  owner: Owner;
  readonly #refill: Refill;
  readonly #waitMs: number;
  readonly #waiting = new Set<Waiter>();
  /** The lease that is counted here; answers about earlier ones come too late to matter. */
  #lease = 0;
  /** Leases up to this one have ended at the store: it numbers the next one higher. */
  #lost = 0;
  #leased = 0;
  #held = 0;
  #owed = 0;
  #serving = false;
  #inDoubt = false;
  /** Charges booked since a new lease was asked for, out of an unknown lease: maybe the new one. */
  #unattributed = 0;
  /** When the store last had less than it was asked for; by the monotonic clock. */
  #shortAt = Number.NEGATIVE_INFINITY;

  /** `refill` asks the store and tells the purse what came; it rejects when the store is away. */
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

  /** The store may count another lease than we do: one of its answers was lost. */
  get inDoubt(): boolean {
    return this.#inDoubt;
  }

  get idle(): boolean {
    return this.#held === 0 && this.#owed === 0 && this.#waiting.size === 0 && !this.#serving;
  }

  /**
   * Takes `wanted` credits, or at least `least` when that is all there is. Answers at once when
   * the lease covers it.
   */
  take(requested: number, minimum: number): TakeResult | Promise<TakeResult> {
    if (requested < minimum || minimum < 0)
      assert.fail('The least must not be more than what is wanted.');
    // What costs nothing needs no credits, not even of a lost lease.
    if (requested === 0) return this.#grant(0);
    if (this.#waiting.size === 0 && this.free >= requested) return this.#grant(requested);
    return this.#queue(requested, minimum);
  }

  /** Leases everything anew, if the store may count another lease than we do. */
  async resolveDoubt(): Promise<void> {
    if (this.#inDoubt) await this.#queue(0, 0);
  }

  /** Held credits that a request turned out not to need. */
  release(credits: number): void {
    this.#held -= credits;
    if (this.#held < 0) assert.fail('More was released than was held.');
  }

  /** A request ended: its hold is given up and its charge owed until the drain has booked it. */
  settle(held: number, charge: number): void {
    this.release(held);
    this.#owed += charge;
  }

  /** A charge that will not be booked after all. */
  cancelCharge(charge: number): void {
    this.#owed -= charge;
  }

  /** The drain has booked a charge: it left the account, and usually this lease. */
  booked(charge: number, fromLease: Booked['fromLease']): void {
    this.#owed -= charge;
    if (fromLease === null) {
      // At worst all of it came out of our lease; until the doubt ends, we count as if it had.
      this.#leased -= charge;
      this.#unattributed += charge;
      this.#inDoubt = true;
    } else if (this.#adopt(fromLease.lease)) {
      this.#leased -= fromLease.credits;
    }
  }

  /** The store is being asked for a new lease: that ends the doubts until now, and no later one. */
  startNewLease(): void {
    this.#inDoubt = false;
    this.#unattributed = 0;
  }

  /** The store has put credits into our lease: all that were asked for, or what there was. */
  granted({ granted, lease }: LeaseResult, ordered: number): void {
    // An order of nothing tells nothing about a shortage: it only asks for the balance.
    if (ordered > 0)
      this.#shortAt = granted < ordered ? performance.now() : Number.NEGATIVE_INFINITY;
    if (this.#adopt(lease)) this.#leased += granted;
    // A lease that is over for us may go on at the store, when orders passed each other.
    else this.#inDoubt = true;
    if (granted > 0) this.#grantWaiting();
  }

  /** Gives up what is free; answers how much of which lease, to be given back to the store. */
  returnFree(): { readonly lease: number; readonly credits: number } {
    const credits = Math.max(0, this.free);
    this.#leased -= credits;
    return { lease: this.#lease, credits };
  }

  /** The store did not answer: it may have done what it was asked, or not. */
  markInDoubt(lease: number): void {
    if (lease === this.#lease) this.#inDoubt = true;
  }

  /** The store ended our lease while we could not renew it; what runs on must be leased anew. */
  markLost(): void {
    this.#lost = this.#lease;
    this.#leased = 0;
  }

  /** Moves on to a newer lease, of which nothing is counted yet; false for one that is over. */
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

  /** Serves waiters in the order they came; one trip to the store answers for all of them. */
  async #serve(): Promise<void> {
    if (this.#serving) return;
    this.#serving = true;
    for (const first of this.#waiting) {
      // A request that comes after a trip has begun waits for the next, which asks for it.
      let included: readonly Waiter[] = [];
      const missing = () => {
        const remaining = included.filter((waiter) => this.#waiting.has(waiter));
        return remaining.reduce((sum, waiter) => sum + waiter.requested, 0) - this.free;
      };
      const creditsToRequest = () => {
        included = [...this.#waiting];
        // All of a lease in doubt is leased anew: free credits may be given while we ask.
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

  /** False when the store did not answer. */
  async #requestRefill(need: CreditNeed): Promise<boolean> {
    if (need.creditsToRequest() <= 0 && !this.#inDoubt) return true;
    try {
      await this.#refill(this, need);
      return true;
    } catch {
      return false;
    }
  }

  /** At once, though more is being asked for: free credits may be recalled for others. */
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
    return isAnswered ? { kind: 'short', available: Math.max(0, free) } : { kind: 'unavailable' };
  }
}
