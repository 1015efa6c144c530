import { withTimeout } from '../core/deadlines.ts';
import { GatewayError } from '../core/errors.ts';

interface LockBounds {
  readonly waitersMax: number;
  readonly waitMs: number;
}

interface Waiter {
  readonly start: () => void;
  readonly timer: Timer;
}

/**
 * Counted in ticks, not by the clock, because nothing progresses while the machine is suspended.
 */
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
        reject(tooBusy(`no turn within ${this.#bounds.waitMs} ms`));
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

/** Lookups per query: ten thousand need twenty queries, none of which takes long. */
const batchSizeMax = 512;
/** Enough for all keys of a busy process. Bounds the memory that invented keys can use. */
const waitingMax = 10_000;
/** After this long, the next query starts while a slow one is still running. */
const slowQueryMs = 1_000;

interface PendingLoad<Key, Value> {
  readonly key: Key;
  readonly resolve: (found: Value) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Batches small lookups that arrive in bursts: whenever a key changes, every process drops its
 * cached keys and looks each up again. Lookups made while a query runs share the next one, so that
 * no result is older than its lookup.
 */
export class BatchLoader<Key, Value> {
  readonly #query: (keys: readonly Key[]) => Promise<(key: Key) => Value>;
  #waiting: PendingLoad<Key, Value>[] = [];
  #isRunning = false;

  /** The query returns a function that is called once per lookup, so that each can fail alone. */
  constructor(query: (keys: readonly Key[]) => Promise<(key: Key) => Value>) {
    this.#query = query;
  }

  load(key: Key): Promise<Value> {
    const { length } = this.#waiting;
    if (length >= waitingMax) return Promise.reject(tooBusy(`${length} calls are already waiting`));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ key, resolve, reject });
      if (!this.#isRunning) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#waiting.length > 0) {
      await withTimeout(this.#runBatch(this.#waiting.splice(0, batchSizeMax)), slowQueryMs);
    }
    this.#isRunning = false;
  }

  async #runBatch(batch: readonly PendingLoad<Key, Value>[]): Promise<void> {
    try {
      const read = await this.#query(batch.map(({ key }) => key));
      for (const pending of batch) resolveOne(pending, read);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}

function resolveOne<Key, Value>(
  { key, resolve, reject }: PendingLoad<Key, Value>,
  read: (key: Key) => Value,
): void {
  try {
    resolve(read(key));
  } catch (error) {
    reject(error);
  }
}

/**
 * Repeats values up to a power of two, because every length is a statement to compile and cache.
 */
export function repeatToPowerOfTwo<Item>(values: readonly Item[]): readonly Item[] {
  return [...values, ...values].slice(0, 2 ** Math.ceil(Math.log2(values.length)));
}
