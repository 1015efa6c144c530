/** Work that a service repeats while the process runs. */
export interface PeriodicTask {
  readonly everyMs: number;
  /** May reject; the next round tries again. */
  run(): Promise<void>;
}

/** Repeats tasks until stopped. The pause between two rounds starts when the first has ended. */
export function runPeriodically(tasks: readonly PeriodicTask[]): { stop(): void } {
  let isStopped = false;
  const timers = new Set<ReturnType<typeof setTimeout>>();
  const schedule = (task: PeriodicTask) => {
    if (isStopped) return;
    const timer = setTimeout(async () => {
      timers.delete(timer);
      // Ignore failures such as an unreachable store; the next round retries.
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
