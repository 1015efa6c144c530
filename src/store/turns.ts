import { GatewayError } from '../core/errors.ts';

interface TurnBounds {
  readonly waitersMax: number;
  readonly waitMs: number;
}

interface Waiter {
  readonly start: () => void;
  readonly timer: Timer;
}

/** Counted in looks, not by the clock: while the machine stands still, no holder can work. */
const looksMax = 10;

/** One holder at a time, first come first served, with a bound on how many wait and how long. */
export class Turns {
  readonly #bounds: TurnBounds;
  readonly #waiters: Waiter[] = [];
  #taken = false;

  constructor(bounds: TurnBounds) {
    this.#bounds = bounds;
  }

  async take(): Promise<void> {
    if (!this.#taken) {
      this.#taken = true;
      return;
    }
    if (this.#waiters.length >= this.#bounds.waitersMax) {
      throw tooBusy(`${this.#waiters.length} changes are waiting already`);
    }
    await new Promise<void>((resolve, reject) => {
      let looks = 0;
      const timer = setInterval(() => {
        looks += 1;
        if (looks < looksMax) return;
        clearInterval(timer);
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
        reject(tooBusy(`no turn within ${this.#bounds.waitMs} ms`));
      }, this.#bounds.waitMs / looksMax);
      const waiter: Waiter = { start: resolve, timer };
      this.#waiters.push(waiter);
    });
  }

  give(): void {
    const next = this.#waiters.shift();
    if (next === undefined) {
      this.#taken = false;
      return;
    }
    clearInterval(next.timer);
    next.start();
  }
}

/** What a caller hears when the database has more to do than it may queue. */
export function tooBusy(reason: string): GatewayError {
  return new GatewayError('service_unavailable', `The database is too busy: ${reason}.`, {
    retryAfterSeconds: 1,
  });
}
