import { GatewayError } from '../core/errors.ts';

interface LockBounds {
  readonly waitersMax: number;
  readonly waitMs: number;
}

interface Waiter {
  readonly start: () => void;
  readonly timer: Timer;
}

/** Waits are counted in ticks, because nothing progresses while the machine is suspended. */
const ticksMax = 10;

/** A first-come, first-served lock with limits on the number of waiters and their wait. */
export class BoundedLock {
  readonly #bounds: LockBounds;
  readonly #waiters: Waiter[] = [];
  #isHeld = false;

  constructor(bounds: LockBounds) {
    this.#bounds = bounds;
  }

  async acquire(): Promise<void> {
    if (!this.#isHeld) {
      this.#isHeld = true;
      return;
    }
    if (this.#waiters.length >= this.#bounds.waitersMax) {
      throw tooBusy(`${this.#waiters.length} changes are already waiting`);
    }
    await new Promise<void>((resolve, reject) => {
      let ticks = 0;
      const timer = setInterval(() => {
        ticks += 1;
        if (ticks < ticksMax) return;
        clearInterval(timer);
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
        reject(tooBusy(`a change waited more than ${this.#bounds.waitMs} ms`));
      }, this.#bounds.waitMs / ticksMax);
      const waiter: Waiter = { start: resolve, timer };
      this.#waiters.push(waiter);
    });
  }

  release(): void {
    const next = this.#waiters.shift();
    if (next === undefined) {
      this.#isHeld = false;
      return;
    }
    clearInterval(next.timer);
    next.start();
  }
}

/** The error for a call that the database has no capacity to queue. */
export function tooBusy(reason: string): GatewayError {
  return new GatewayError('service_unavailable', `The database is too busy: ${reason}.`, {
    retryAfterSeconds: 1,
  });
}
