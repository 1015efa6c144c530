import type { Chore } from '../core/chore.ts';

/** Repeats chores until it is told to stop; a round that takes long delays the next one. */
export function repeatAll(chores: readonly Chore[]): { stop(): void } {
  let stopped = false;
  const timers = new Set<ReturnType<typeof setTimeout>>();
  const schedule = (chore: Chore) => {
    if (stopped) return;
    const timer = setTimeout(async () => {
      timers.delete(timer);
      // A store that is away is found again by the next round.
      await chore.run().catch(() => undefined);
      schedule(chore);
    }, chore.everyMs);
    timers.add(timer);
  };
  for (const chore of chores) schedule(chore);
  return {
    stop() {
      stopped = true;
      for (const timer of timers) clearTimeout(timer);
    },
  };
}
