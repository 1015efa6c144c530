import { withTimeout } from '../core/deadlines.ts';
import { tooBusy } from './bounded-lock.ts';

/** Lookups per query: ten thousand need twenty queries, none of which takes long. */
const batchSizeMax = 512;
/**
 * Enough for all keys of a busy process. Bounds the memory that requests with invented keys can
 * use.
 */
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

  /**
   * The query returns a function that is called once per lookup, so that each lookup can fail on
   * its own.
   */
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
 * Repeats values up to a power of two, because each length needs its own compiled statement.
 */
export function repeatToPowerOfTwo<Item>(values: readonly Item[]): readonly Item[] {
  return [...values, ...values].slice(0, 2 ** Math.ceil(Math.log2(values.length)));
}
