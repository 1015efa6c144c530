import type { PeriodicTask } from '../core/periodic-task.ts';

/** The outcomes of recent calls to one provider. */
export interface RecentCalls {
  /** The period covered. Shorter than the window if the process started recently. */
  readonly windowSeconds: number;
  readonly calls: number;
  readonly failedCalls: number;
  /** Counts by failure, such as `timeout`. */
  readonly failures: Readonly<Record<string, number>>;
}

/** Counts of calls since startup. The key is the provider, a line break, and the outcome. */
export type CallCounts = ReadonlyMap<string, number>;

/** Long enough to see an outage begin, short enough to see it end. */
const windowMs = 15 * 60_000;
const snapshotMs = 60_000;

/** Outcomes that don't count against the provider. `request` is an invalid request. */
const nonFailureOutcomes = new Set(['answered', 'client_disconnected', 'request']);

/**
 * Derives recent calls from counters: takes a snapshot once a minute and subtracts the one from 15
 * minutes ago from the current counts. This adds no work to requests.
 */
export class RecentTraffic {
  readonly #read: () => CallCounts;
  readonly #now: () => number;
  /** Oldest first. There is always at least one. */
  #snapshots: readonly { readonly at: number; readonly counts: CallCounts }[];

  constructor(read: () => CallCounts, now: () => number = () => performance.now()) {
    this.#read = read;
    this.#now = now;
    this.#snapshots = [{ at: now(), counts: read() }];
  }

  periodicTasks(): PeriodicTask[] {
    return [{ everyMs: snapshotMs, run: async () => this.takeSnapshot() }];
  }

  takeSnapshot(): void {
    const at = this.#now();
    const recent = this.#snapshots.filter((snapshot) => at - snapshot.at <= windowMs);
    this.#snapshots = [...recent, { at, counts: this.#read() }];
  }

  /** Returns recent calls by provider, without providers that were not called. */
  calls(): ReadonlyMap<string, RecentCalls> {
    const now = this.#now();
    const before = this.#snapshots.find(({ at }) => now - at <= windowMs) ?? this.#snapshots.at(-1);
    const windowSeconds = Math.round((now - (before?.at ?? now)) / 1000);
    const byProvider = Map.groupBy(this.#read(), ([name]) => name.split('\n')[0] ?? '');
    const recent = [...byProvider].map(([provider, counts]): [string, RecentCalls] => {
      const increments = counts.map(([name, count]): [string, number] => [
        name.slice(provider.length + 1),
        count - (before?.counts.get(name) ?? 0),
      ]);
      return [provider, { windowSeconds, ...totals(increments) }];
    });
    return new Map(recent.filter(([, { calls }]) => calls > 0));
  }
}

function totals(
  outcomes: readonly (readonly [string, number])[],
): Omit<RecentCalls, 'windowSeconds'> {
  const failures = outcomes.filter(
    ([outcome, count]) => count > 0 && !nonFailureOutcomes.has(outcome),
  );
  const sum = (list: readonly (readonly [string, number])[]) =>
    list.reduce((total, [, count]) => total + count, 0);
  return {
    calls: sum(outcomes),
    failedCalls: sum(failures),
    failures: Object.fromEntries(failures),
  };
}
