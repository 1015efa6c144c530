import { describe, expect, test } from 'bun:test';
import type { JobObjects } from './queue.ts';
import { JobSweep } from './sweep.ts';

const hourMs = 3_600_000;

/** Creates a sweep over objects that are all due. The storage can't delete stuck objects. */
function createSweep(keys: readonly string[], isStuck: (key: string) => boolean) {
  const dueAt = new Map(keys.map((key) => [key, 0]));
  const clock = { now: 0 };
  const reported: { readonly objects: number; readonly reason: unknown }[] = [];
  let tries = 0;
  const objects: JobObjects = {
    isAvailable: async () => true,
    async register() {},
    async due(now, limit) {
      const due = [...dueAt].filter(([, at]) => at <= now).sort(([, a], [, b]) => a - b);
      return due.slice(0, limit).map(([key]) => key);
    },
    async unregister(key) {
      dueAt.delete(key);
    },
    async releaseUnused() {
      return true;
    },
    async postpone(key, until) {
      dueAt.set(key, until);
    },
    async expire() {},
  };
  const storage = {
    async delete(key: string) {
      tries += 1;
      if (isStuck(key)) throw new Error(`${key} is locked`);
    },
  };
  const sweep = new JobSweep({
    objects,
    storage,
    now: () => clock.now,
    onDeleteFailures: (failures) => void reported.push(failures),
  });
  return { sweep, clock, reported, remaining: () => [...dueAt.keys()], tries: () => tries };
}

const names = (start: string, count: number) => Array.from({ length: count }, (_, i) => start + i);

describe('JobSweep', () => {
  test('deletes other objects if some cannot be deleted, and reports the failure once', async () => {
    const stuck = names('stuck', 150);
    const { sweep, clock, reported, remaining } = createSweep(
      [...stuck, ...names('free', 150)],
      (key) => key.startsWith('stuck'),
    );
    for (let round = 0; round < 3; round += 1) {
      await sweep.run();
      clock.now += 60_000;
    }
    expect(remaining()).toEqual(stuck);
    expect(reported.map(({ objects, reason }) => [objects, String(reason)])).toEqual([
      [100, 'Error: stuck0 is locked'],
    ]);
  });

  test('after 1 hour, retries an object that could not be deleted', async () => {
    let isLocked = true;
    const { sweep, clock, reported, remaining, tries } = createSweep(['one'], () => isLocked);
    await sweep.run();
    clock.now = hourMs - 1;
    await sweep.run();
    expect([tries(), remaining()]).toEqual([1, ['one']]);
    clock.now = hourMs;
    isLocked = false;
    await sweep.run();
    expect([tries(), remaining(), reported.length]).toEqual([2, [], 1]);
  });

  test('tries one batch per run if the storage is unreachable', async () => {
    const { sweep, tries } = createSweep(names('any', 1_000), () => true);
    await sweep.run();
    expect(tries()).toBe(100);
  });
});
