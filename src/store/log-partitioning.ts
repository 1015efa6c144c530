import { failureMessage } from '../core/errors.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import type { LogPartitions } from './database.ts';

/** Often enough to resume soon what another process left, and partitions last for weeks. */
const everyMs = 600_000;

interface LogPartitioningDeps {
  readonly partitions: LogPartitions;
  /** `logs.keep_days` */
  readonly keepDays: number | null;
  now(): number;
  onPartitioned(): void;
  /** Called when the failure changes, because a user without privileges fails every time. */
  onFailure(reason: string): void;
}

/** Keeps the request log partitioned. Bookings don't depend on it. */
export class LogPartitioning {
  readonly #deps: LogPartitioningDeps;
  #running: Promise<void> | undefined;
  #reason = '';
  #stopped = false;

  constructor(deps: LogPartitioningDeps) {
    this.#deps = deps;
  }

  periodicTasks(): PeriodicTask[] {
    return [{ everyMs, run: () => this.run() }];
  }

  run(): Promise<void> {
    this.#running ??= this.#prepare().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Doesn't wait, because a step may take minutes. Another process resumes it. */
  stop(): void {
    this.#stopped = true;
    this.#deps.partitions.stop();
  }

  async #prepare(): Promise<void> {
    const { partitions, keepDays, now, onPartitioned, onFailure } = this.#deps;
    try {
      if (await partitions.prepare(now, keepDays)) onPartitioned();
      this.#reason = '';
    } catch (error) {
      const reason = failureMessage(error);
      if (reason !== this.#reason && !this.#stopped) onFailure(reason);
      this.#reason = reason;
    }
  }
}
