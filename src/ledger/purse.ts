import { strict as assert } from 'node:assert';
import type { Booked, LeaseAnswer } from './ledger-store.ts';
import type { Owner } from './owner.ts';

/** What a purse answers to a request for credits. */
export type Taken =
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
export interface Need {
  /** What to ask the store for now, on behalf of all who wait at this moment. */
  order(): number;
  /** What is still missing for those on whose behalf the store was last asked. */
  missing(): number;
  readonly oneHold: number;
}

type Refill = (purse: Purse, need: Need) => Promise<void>;

interface Waiter {
  readonly wanted: number;
  readonly least: number;
  readonly answer: (taken: Taken) => void;
}

/**
 * The part of one account that this process has on lease, counted in memory. Requests take from it
 * and give back to it without touching the store; only when it runs low does somebody ask for more.
 *
 * free = leased − held − owed, where owed is settled but not yet drained.
 */
export class Purse {
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
  #unplaced = 0;
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
  take(wanted: number, least: number): Taken | Promise<Taken> {
    if (wanted < least || least < 0) assert.fail('The least must not be more than what is wanted.');
    // What costs nothing needs no credits, not even of a lost lease.
    if (wanted === 0) return this.#give(0);
    if (this.#waiting.size === 0 && this.free >= wanted) return this.#give(wanted);
    return this.#queue(wanted, least);
  }

  /** Leases everything anew, if the store may count another lease than we do. */
  async endDoubt(): Promise<void> {
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
  forgive(charge: number): void {
    this.#owed -= charge;
  }

  /** The drain has booked a charge: it left the account, and usually this lease. */
  booked(charge: number, fromLease: Booked['fromLease']): void {
    this.#owed -= charge;
    if (fromLease === null) {
      // At worst all of it came out of our lease; until the doubt ends, we count as if it had.
      this.#leased -= charge;
      this.#unplaced += charge;
      this.#inDoubt = true;
    } else if (this.#adopt(fromLease.lease)) {
      this.#leased -= fromLease.credits;
    }
  }

  /** The store is being asked for a new lease: that ends the doubts until now, and no later one. */
  leaseAnew(): void {
    this.#inDoubt = false;
    this.#unplaced = 0;
  }

  /** The store has put credits into our lease: all that were asked for, or what there was. */
  granted({ granted, lease }: LeaseAnswer, asked: number): void {
    // An order of nothing tells nothing about a shortage: it only asks for the balance.
    if (asked > 0) this.#shortAt = granted < asked ? performance.now() : Number.NEGATIVE_INFINITY;
    if (this.#adopt(lease)) this.#leased += granted;
    // A lease that is over for us may go on at the store, when orders passed each other.
    else this.#inDoubt = true;
    if (granted > 0) this.#giveWhole();
  }

  /** Gives up what is free; answers how much of which lease, to be given back to the store. */
  surrender(): { readonly lease: number; readonly credits: number } {
    const credits = Math.max(0, this.free);
    this.#leased -= credits;
    return { lease: this.#lease, credits };
  }

  /** The store did not answer: it may have done what it was asked, or not. */
  doubt(lease: number): void {
    if (lease === this.#lease) this.#inDoubt = true;
  }

  /** The store ended our lease while we could not renew it; what runs on must be leased anew. */
  lose(): void {
    this.#lost = this.#lease;
    this.#leased = 0;
  }

  /** Moves on to a newer lease, of which nothing is counted yet; false for one that is over. */
  #adopt(lease: number): boolean {
    if (lease > this.#lease) {
      this.#lease = lease;
      this.#leased = -this.#unplaced;
    }
    return lease === this.#lease && lease > this.#lost;
  }

  #give(credits: number): Taken {
    this.#held += credits;
    return { kind: 'taken', credits };
  }

  #queue(wanted: number, least: number): Promise<Taken> {
    const { promise, resolve } = Promise.withResolvers<Taken>();
    const waiter: Waiter = { wanted, least, answer: resolve };
    this.#waiting.add(waiter);
    const timer = setTimeout(() => this.#giveUp(waiter), this.#waitMs);
    void this.#serve();
    return promise.finally(() => clearTimeout(timer));
  }

  #giveUp(waiter: Waiter): void {
    const isShort = performance.now() - this.#shortAt < shortFreshMs;
    if (this.#waiting.delete(waiter)) waiter.answer(this.#giveWithin(waiter, isShort));
  }

  /** Serves waiters in the order they came; one trip to the store answers for all of them. */
  async #serve(): Promise<void> {
    if (this.#serving) return;
    this.#serving = true;
    for (const first of this.#waiting) {
      // A request that comes after a trip has begun waits for the next, which asks for it.
      let asked: readonly Waiter[] = [];
      const missing = () => {
        const still = asked.filter((waiter) => this.#waiting.has(waiter));
        return still.reduce((sum, waiter) => sum + waiter.wanted, 0) - this.free;
      };
      const order = () => {
        asked = [...this.#waiting];
        // All of a lease in doubt is leased anew: free credits may be given while we ask.
        return this.#inDoubt ? this.#leased + Math.max(0, missing()) : missing();
      };
      const isAnswered = await this.#ask({ order, missing, oneHold: first.wanted });
      for (const waiter of asked) {
        if (this.#waiting.delete(waiter)) waiter.answer(this.#giveWithin(waiter, isAnswered));
      }
    }
    this.#serving = false;
  }

  /** False when the store did not answer. */
  async #ask(need: Need): Promise<boolean> {
    if (need.order() <= 0 && !this.#inDoubt) return true;
    try {
      await this.#refill(this, need);
      return true;
    } catch {
      return false;
    }
  }

  /** At once, though more is being asked for: free credits may be recalled for others. */
  #giveWhole(): void {
    for (const waiter of this.#waiting) {
      if (this.free < waiter.wanted) return;
      this.#waiting.delete(waiter);
      waiter.answer(this.#give(waiter.wanted));
    }
  }

  #giveWithin({ wanted, least }: Waiter, isAnswered: boolean): Taken {
    const { free } = this;
    if (free >= wanted || wanted === 0) return this.#give(wanted);
    if (free >= least && free > 0) return this.#give(free);
    return isAnswered ? { kind: 'short', available: Math.max(0, free) } : { kind: 'unavailable' };
  }
}
