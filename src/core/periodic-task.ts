/** Something a part wants done again and again; wire/chores.ts keeps the clock. */
export interface PeriodicTask {
  readonly everyMs: number;
  /** May fail: the next round tries again. */
  run(): Promise<void>;
}

/** Repeats chores until it is told to stop; a round that takes long delays the next one. */
export function runPeriodically(tasks: readonly PeriodicTask[]): { stop(): void } {
  let isStopped = false;
  const timers = new Set<ReturnType<typeof setTimeout>>();
  const schedule = (task: PeriodicTask) => {
    if (isStopped) return;
    const timer = setTimeout(async () => {
      timers.delete(timer);
      // A store that is away is found again by the next round.
      await task.run().catch(() => undefined);
      schedule(task);
    }, task.everyMs);
    timers.add(timer);
  };
  for (const task of tasks) schedule(task);
  return {
    stop() {
      isStopped = true;
      for (const timer of timers) clearTimeout(timer);
    },
  };
}
