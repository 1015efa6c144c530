import { expect, test } from 'bun:test';
import type { JobObjects } from './queue.ts';
import { JobSweep } from './sweep.ts';

const hourMs = 3_600_000;

/** Objects that are all due, some of which the storage never deletes. */
function rig(keys: readonly string[], isStuck: (key: string) => boolean) {
  const dueAt = new Map(keys.map((key) => [key, 0]));
  const clock = { now: 0 };
  const told: { readonly objects: number; readonly reason: unknown }[] = [];
  let tries = 0;
  const objects: JobObjects = {
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
      if (isStuck(key)) throw new Error(`${key} is held`);
    },
  };
  const sweep = new JobSweep({
    objects,
    storage,
    now: () => clock.now,
    onDeleteFailures: (left) => void told.push(left),
  });
  return { sweep, clock, told, left: () => [...dueAt.keys()], tries: () => tries };
}

const names = (start: string, count: number) => Array.from({ length: count }, (_, i) => start + i);

test('an object that cannot be deleted does not hold up others, and is told of once', async () => {
  const stuck = names('stuck', 150);
  const { sweep, clock, told, left } = rig([...stuck, ...names('free', 150)], (key) =>
    key.startsWith('stuck'),
  );
  for (let round = 0; round < 3; round += 1) {
    await sweep.run();
    clock.now += 60_000;
  }
  expect(left()).toEqual(stuck);
  expect(told.map(({ objects, reason }) => [objects, String(reason)])).toEqual([
    [100, 'Error: stuck0 is held'],
  ]);
});

test('an object that could not be deleted is tried again an hour later', async () => {
  let isHeld = true;
  const { sweep, clock, told, left, tries } = rig(['one'], () => isHeld);
  await sweep.run();
  clock.now = hourMs - 1;
  await sweep.run();
  expect([tries(), left()]).toEqual([1, ['one']]);
  clock.now = hourMs;
  isHeld = false;
  await sweep.run();
  expect([tries(), left(), told.length]).toEqual([2, [], 1]);
});

test('a storage that is away is asked for one batch a round', async () => {
  const { sweep, tries } = rig(names('any', 1_000), () => true);
  await sweep.run();
  expect(tries()).toBe(100);
});
