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

/** Counted in looks, not by the clock: while the machine stands still, no holder can work. */
const ticksMax = 10;

/** One holder at a time, first come first served, with a bound on how many wait and how long. */
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
      throw tooBusy(`${this.#waiters.length} changes are waiting already`);
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

/** What a caller hears when the database has more to do than it may queue. */
export function tooBusy(reason: string): GatewayError {
  return new GatewayError('service_unavailable', `The database is too busy: ${reason}.`, {
    retryAfterSeconds: 1,
  });
}

/** Questions in one query: ten thousand need twenty queries, and none of these takes long. */
const batchSizeMax = 512;
/** Enough for all keys of a busy process at once; clients that invent keys get no more memory. */
const waitingMax = 10_000;
/** After this long, the next query starts without waiting for a slow one. */
const slowQueryMs = 1_000;

interface PendingLoad<Key, Value> {
  readonly key: Key;
  readonly resolve: (found: Value) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Small questions that come in herds: whenever any key is changed, every process forgets all keys
 * it knew and asks for each again. Questions that come while a query runs share the next one; no
 * answer is older than its question.
 */
export class BatchLoader<Key, Value> {
  readonly #query: (keys: readonly Key[]) => Promise<(one: Key) => Value>;
  #waiting: PendingLoad<Key, Value>[] = [];
  #isRunning = false;

  /** The query's result is read for each question alone: one that cannot be read fails alone. */
  constructor(query: (keys: readonly Key[]) => Promise<(one: Key) => Value>) {
    this.#query = query;
  }

  load(key: Key): Promise<Value> {
    const { length } = this.#waiting;
    if (length >= waitingMax) return Promise.reject(tooBusy(`${length} calls are waiting already`));
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
      for (const one of batch) resolveOne(one, read);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}

function resolveOne<Key, Value>(
  { key, resolve, reject }: PendingLoad<Key, Value>,
  read: (one: Key) => Value,
): void {
  try {
    resolve(read(key));
  } catch (error) {
    reject(error);
  }
}

/** Repeats values up to a power of two: a statement for every length would be compiled and kept. */
export function padded<Item>(values: readonly Item[]): readonly Item[] {
  return [...values, ...values].slice(0, 2 ** Math.ceil(Math.log2(values.length)));
}
