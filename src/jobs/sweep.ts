import { jobRowMs } from '../core/bounds.ts';
import type { Chore } from '../core/chore.ts';
import type { ObjectStorage } from './objects.ts';
import type { JobObjects } from './queue.ts';

interface SweepParts {
  readonly objects: JobObjects;
  readonly storage: Pick<ObjectStorage, 'delete'>;
  now(): number;
  /** Some could not be deleted; told at most once an hour. */
  onLeft(left: { readonly objects: number; readonly why: unknown }): void;
}

const everyMs = 60_000;
const batchObjects = 100;
/** An object that cannot be deleted lets those behind it go first, and is tried again then. */
const againMs = 3_600_000;

/** Removes what jobs leave behind: inputs, pieces, outputs after their day, old rows. */
export class JobSweep {
  readonly #parts: SweepParts;
  #toldAt = Number.NEGATIVE_INFINITY;

  constructor(parts: SweepParts) {
    this.#parts = parts;
  }

  chores(): Chore[] {
    return [{ everyMs, run: () => this.run() }];
  }

  async run(): Promise<void> {
    const { objects, now } = this.#parts;
    await objects.expire(now(), now() - jobRowMs);
    // Stops after a batch with failures: storage that is away is not asked for every object.
    for (let found = batchObjects, left = 0; found === batchObjects && left === 0; ) {
      const keys = await objects.due(now(), batchObjects);
      found = keys.length;
      left = await this.#delete(keys);
    }
  }

  /** Answers how many could not be deleted. */
  async #delete(keys: readonly string[]): Promise<number> {
    const { objects, storage, now } = this.#parts;
    const failures: unknown[] = [];
    for (const key of keys) {
      try {
        await storage.delete(key);
      } catch (thrown) {
        failures.push(thrown);
        await objects.postpone(key, now() + againMs);
        continue;
      }
      // The row goes last: an object that could not be deleted is tried again.
      await objects.forget(key);
    }
    if (failures.length > 0) this.#tell(failures);
    return failures.length;
  }

  #tell(failures: readonly unknown[]): void {
    const now = this.#parts.now();
    if (now - this.#toldAt < againMs) return;
    this.#toldAt = now;
    this.#parts.onLeft({ objects: failures.length, why: failures[0] });
  }
}
