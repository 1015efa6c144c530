import assert from 'node:assert/strict';
import type { Owner } from './owner.ts';

/** What a purse answers to a request for credits. */
export type Taken =
  | { readonly kind: 'taken'; readonly credits: number }
  | { readonly kind: 'short'; readonly available: number }
  /** The lease is used up and the store cannot be asked. */
  | { readonly kind: 'unavailable' };

type Refill = (owner: Owner, credits: number, oneHold: number) => Promise<number>;

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
  #leased = 0;
  #held = 0;
  #owed = 0;
  #serving = false;

  /** `refill` asks the store for credits and answers how many came; it rejects when it is away. */
  constructor(owner: Owner, refill: Refill) {
    this.owner = owner;
    this.#refill = refill;
  }

  get free(): number {
    return this.#leased - this.#held - this.#owed;
  }

  get leased(): number {
    return this.#leased;
  }

  get held(): number {
    return this.#held;
  }

  get idle(): boolean {
    return this.#held === 0 && this.#owed === 0 && this.#waiting.length === 0 && !this.#serving;
  }

  /**
   * Takes `wanted` credits, or at least `least` when that is all there is. Answers at once when
   * the lease covers it.
   */
  take(wanted: number, least: number): Taken | Promise<Taken> {
    assert(wanted >= least && least >= 0, 'The least must not be more than what is wanted.');
    if (this.#waiting.length === 0 && this.free >= wanted) return this.#hand(wanted);
    return new Promise((answer) => {
      this.#waiting.push({ wanted, least, answer });
      void this.#serve();
    });
  }

  /** A running request needs nothing of this any more. */
  release(credits: number): void {
    this.#held -= credits;
    assert(this.#held >= 0, 'More was released than was held.');
  }

  /** A request ended: its hold is given up and its charge owed until the drain has booked it. */
  settle(held: number, charge: number): void {
    this.release(held);
    this.#owed += charge;
  }

  /** The drain has booked a charge: it left the account, and usually this lease. */
  booked(charge: number, fromLease: number): void {
    this.#owed -= charge;
    this.#leased -= fromLease;
  }

  /** Gives up what is free; answers how much, to be given back to the store. */
  surrender(): number {
    const credits = Math.max(0, this.free);
    this.#leased -= credits;
    return credits;
  }

  /** What was surrendered could not be given back after all. */
  keep(credits: number): void {
    this.#leased += credits;
  }

  /** The store ended our lease while we could not renew it; what runs on must be leased anew. */
  lose(): void {
    this.#leased = 0;
  }

  #hand(credits: number): Taken {
    this.#held += credits;
    return { kind: 'taken', credits };
  }

  /** Serves waiters in the order they came; one trip to the store answers for all of them. */
  async #serve(): Promise<void> {
    if (this.#serving) return;
    this.#serving = true;
    while (this.#waiting.length > 0) {
      const round = this.#waiting.length;
      const wanted = this.#waiting.reduce((sum, waiter) => sum + waiter.wanted, 0);
      const oneHold = this.#waiting[0]?.wanted ?? 0;
      const asked = await this.#ask(wanted - this.free, oneHold);
      // Later comers wait for the next round: the store was not asked for them.
      for (const waiter of this.#waiting.splice(0, round))
        waiter.answer(this.#verdict(waiter, asked));
    }
    this.#serving = false;
  }

  async #ask(credits: number, oneHold: number): Promise<boolean> {
    if (credits <= 0) return true;
    try {
      this.#leased += await this.#refill(this.owner, credits, oneHold);
      return true;
    } catch {
      return false;
    }
  }

  #verdict({ wanted, least }: Waiter, asked: boolean): Taken {
    const { free } = this;
    if (free >= wanted) return this.#hand(wanted);
    if (free >= least && free > 0) return this.#hand(free);
    return asked ? { kind: 'short', available: Math.max(0, free) } : { kind: 'unavailable' };
  }
}
