import type { PeriodicTask } from '../core/periodic-task.ts';

/** What came of the calls to one provider lately. */
export interface RecentCalls {
  /** How far back they go; less than the whole window after a start. */
  readonly windowSeconds: number;
  readonly calls: number;
  readonly failedCalls: number;
  /** What went wrong, such as `timeout` → how often. */
  readonly failures: Readonly<Record<string, number>>;
}

/** What came of calls, by provider, a line break and the outcome, since the start. */
export type CallCounts = ReadonlyMap<string, number>;

/** Long enough to see an outage begin, short enough to see it end. */
const windowMs = 15 * 60_000;
const markMs = 60_000;

/** An answer, a client that left and a faulty request say nothing against the provider. */
const nonFailureOutcomes = new Set(['answered', 'left', 'request']);

/**
 * The latest part of what is counted anyway: once a minute the counts are noted, and those of a
 * quarter of an hour ago are subtracted from those of now. No request does anything for it.
 */
export class RecentTraffic {
  readonly #read: () => CallCounts;
  readonly #now: () => number;
  /** Oldest first, at least one. */
  #marks: readonly { readonly at: number; readonly counts: CallCounts }[];

  constructor(read: () => CallCounts, now: () => number = () => performance.now()) {
    this.#read = read;
    this.#now = now;
    this.#marks = [{ at: now(), counts: read() }];
  }

  periodicTasks(): PeriodicTask[] {
    return [{ everyMs: markMs, run: async () => this.mark() }];
  }

  mark(): void {
    const at = this.#now();
    const recentMarks = this.#marks.filter((one) => at - one.at <= windowMs);
    this.#marks = [...recentMarks, { at, counts: this.#read() }];
  }

  /** By provider; one that nobody called is not there. */
  calls(): ReadonlyMap<string, RecentCalls> {
    const now = this.#now();
    const before = this.#marks.find(({ at }) => now - at <= windowMs) ?? this.#marks.at(-1);
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
