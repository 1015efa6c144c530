import { jobRowMs } from '../core/bounds.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import type { ObjectStorage } from './objects.ts';
import type { JobObjects } from './queue.ts';

interface SweepDeps {
  readonly objects: JobObjects;
  readonly storage: Pick<ObjectStorage, 'delete'>;
  now(): number;
  /** Some could not be deleted; told at most once an hour. */
  onDeleteFailures(failed: { readonly objects: number; readonly reason: unknown }): void;
}

const everyMs = 60_000;
const batchObjects = 100;
/** An object that cannot be deleted lets those behind it go first, and is tried again then. */
const retryMs = 3_600_000;

/** Removes what jobs leave behind: inputs, pieces, outputs after their day, old rows. */
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
    // Stops after a batch with failures: storage that is away is not asked for every object.
    for (let found = batchObjects, failed = 0; found === batchObjects && failed === 0; ) {
      const keys = await objects.due(now(), batchObjects);
      found = keys.length;
      failed = await this.#delete(keys);
    }
  }

  /** Answers how many could not be deleted. */
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
      // The row goes last: an object that could not be deleted is tried again.
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
