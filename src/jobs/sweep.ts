import { jobRowMs } from '../core/bounds.ts';
import type { Chore } from '../core/chore.ts';
import type { ObjectStore } from './objects.ts';
import type { JobObjects } from './queue.ts';

export interface SweepParts {
  readonly objects: JobObjects;
  readonly store: Pick<ObjectStore, 'delete'>;
  now(): number;
}

const everyMs = 60_000;
const batchObjects = 100;

/** Removes what jobs leave behind: inputs, pieces, outputs after their day, old rows. */
export class JobSweep {
  readonly #parts: SweepParts;

  constructor(parts: SweepParts) {
    this.#parts = parts;
  }

  chores(): Chore[] {
    return [{ everyMs, run: () => this.run() }];
  }

  async run(): Promise<void> {
    const { objects, store, now } = this.#parts;
    await objects.expire(now(), now() - jobRowMs);
    for (let found = batchObjects; found === batchObjects; ) {
      const keys = await objects.due(now(), batchObjects);
      found = keys.length;
      for (const key of keys) {
        // The row goes last: an object that could not be deleted is tried again.
        await store.delete(key);
        await objects.forget(key);
      }
    }
  }
}
