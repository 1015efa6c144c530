import { jobRowMs } from '../core/bounds.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import type { ObjectStorage } from './object-storage.ts';
import type { JobObjects } from './queue.ts';

interface SweepDeps {
  readonly objects: JobObjects;
  readonly storage: Pick<ObjectStorage, 'delete'>;
  now(): number;
  /** Reports objects that couldn't be deleted, at most once an hour. */
  onDeleteFailures(failed: { readonly objects: number; readonly reason: unknown }): void;
}

const everyMs = 60_000;
const batchObjects = 100;
/** Delay before an object that couldn't be deleted is retried, so that it doesn't block others. */
const retryMs = 3_600_000;

/** Deletes expired inputs, pieces, and outputs of jobs, and old rows. */
export class JobSweep {
  readonly #deps: SweepDeps;
  #reportedAt = Number.NEGATIVE_INFINITY;

  constructor(deps: SweepDeps) {
    this.#deps = deps;
  }

  periodicTasks(): PeriodicTask[] {
    return [{ everyMs, run: () => this.run() }];
  }

  async run(): Promise<void> {
    const { objects, now } = this.#deps;
    await objects.expire(now(), now() - jobRowMs);
    // Stop after a batch with failures, so that unreachable storage gets only a few requests.
    for (let found = batchObjects, failed = 0; found === batchObjects && failed === 0; ) {
      const keys = await objects.due(now(), batchObjects);
      found = keys.length;
      failed = await this.#delete(keys);
    }
  }

  /** Returns the number of objects that couldn't be deleted. */
  async #delete(keys: readonly string[]): Promise<number> {
    const { objects, storage, now } = this.#deps;
    const failures: unknown[] = [];
    for (const key of keys) {
      try {
        await storage.delete(key);
      } catch (error) {
        failures.push(error);
        await objects.postpone(key, now() + retryMs);
        continue;
      }
      // Delete the row last, so that a crash in between only repeats the deletion.
      await objects.unregister(key);
    }
    if (failures.length > 0) this.#reportFailures(failures);
    return failures.length;
  }

  #reportFailures(failures: readonly unknown[]): void {
    const now = this.#deps.now();
    if (now - this.#reportedAt < retryMs) return;
    this.#reportedAt = now;
    this.#deps.onDeleteFailures({ objects: failures.length, reason: failures[0] });
  }
}
