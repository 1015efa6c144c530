import { strict as assert } from 'node:assert';
import type { Booked, LeaseAnswer } from './ledger-store.ts';
import type { Owner } from './owner.ts';

/** What a purse answers to a request for credits. */
export type Taken =
  | { readonly kind: 'taken'; readonly credits: number }
  | { readonly kind: 'short'; readonly available: number }
  /** The lease is used up and the store cannot be asked. */
  | { readonly kind: 'unavailable' };

/** What those who wait need; `missing` is looked at again as credits come and go. */
export interface Need {
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
  readonly #waiting: Waiter[] = [];
  /** The lease that is counted here; answers about earlier ones come too late to matter. */
  #lease = 0;
  #leased = 0;
  #held = 0;
  #owed = 0;
  #serving = false;
  #inDoubt = false;

  /** `refill` asks the store and tells the purse what came; it rejects when the store is away. */
  constructor(owner: Owner, refill: Refill) {
    this.owner = owner;
    this.#refill = refill;
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
    return this.#held === 0 && this.#owed === 0 && this.#waiting.length === 0 && !this.#serving;
  }

  /**
   * Takes `wanted` credits, or at least `least` when that is all there is. Answers at once when
   * the lease covers it.
   */
  take(wanted: number, least: number): Taken | Promise<Taken> {
    if (wanted < least || least < 0) assert.fail('The least must not be more than what is wanted.');
    // What costs nothing needs no credits, not even of a lost lease.
    if (wanted === 0) return this.#give(0);
    if (this.#waiting.length === 0 && this.free >= wanted) return this.#give(wanted);
    return this.#queue(wanted, least);
  }

  /** Leases anew what is in use, and nothing else, if the store may count another lease. */
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
      // At worst all of it came from here; until the doubt ends we count on no more than that.
      this.#leased -= charge;
      this.#inDoubt = true;
    } else if (this.#adopt(fromLease.lease)) {
      this.#leased -= fromLease.credits;
    }
  }

  /** The store has put credits into our lease. */
  granted({ granted, lease }: LeaseAnswer, anew: boolean): void {
    if (this.#adopt(lease)) this.#leased += granted;
    if (anew) this.#inDoubt = false;
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
    this.#lease += 1;
    this.#leased = 0;
  }

  /** Moves on to a newer lease, which begins with nothing; false for one that is over. */
  #adopt(lease: number): boolean {
    if (lease > this.#lease) {
      this.#lease = lease;
      this.#leased = 0;
    }
    return lease === this.#lease;
  }

  #give(credits: number): Taken {
    this.#held += credits;
    return { kind: 'taken', credits };
  }

  #queue(wanted: number, least: number): Promise<Taken> {
    return new Promise((answer) => {
      this.#waiting.push({ wanted, least, answer });
      void this.#serve();
    });
  }

  /** Serves waiters in the order they came; one trip to the store answers for all of them. */
  async #serve(): Promise<void> {
    if (this.#serving) return;
    this.#serving = true;
    while (this.#waiting.length > 0) {
      const round = this.#waiting.length;
      const wanted = this.#waiting.reduce((sum, waiter) => sum + waiter.wanted, 0);
      const oneHold = this.#waiting[0]?.wanted ?? 0;
      const isAnswered = await this.#ask({ missing: () => wanted - this.free, oneHold });
      // Later comers wait for the next round: the store was not asked for them.
      for (const waiter of this.#waiting.splice(0, round))
        waiter.answer(this.#giveWithin(waiter, isAnswered));
    }
    this.#serving = false;
  }

  /** False when the store did not answer. */
  async #ask(need: Need): Promise<boolean> {
    if (need.missing() <= 0 && !this.#inDoubt) return true;
    try {
      await this.#refill(this, need);
      return true;
    } catch {
      return false;
    }
  }

  #giveWithin({ wanted, least }: Waiter, isAnswered: boolean): Taken {
    const { free } = this;
    if (free >= wanted || wanted === 0) return this.#give(wanted);
    if (free >= least && free > 0) return this.#give(free);
    return isAnswered ? { kind: 'short', available: Math.max(0, free) } : { kind: 'unavailable' };
  }
}
