import { expect, test } from 'bun:test';
import { changePollMs } from '../core/bounds.ts';
import { ChangeWatcher } from './directory.ts';

function watching(versions: (number | Error)[]) {
  let changes = 0;
  const directory = {
    async version(): Promise<number> {
      const next = versions.shift();
      if (typeof next === 'number') return next;
      throw next ?? new Error('no more versions');
    },
  };
  const watch = new ChangeWatcher(directory, () => changes++);
  return { watch, changes: () => changes };
}

test('each move of the version is told once', async () => {
  const { watch, changes } = watching([7, 7, 8, 8, 10]);
  const seen: number[] = [];
  for (let i = 0; i < 5; i++) {
    await watch.check();
    seen.push(changes());
  }
  // The first look forgets too: what was remembered before it may be older than the version.
  expect(seen).toEqual([1, 1, 2, 2, 3]);
});

test('a store that is away changes nothing; what changed meanwhile is noticed after', async () => {
  const { watch, changes } = watching([7, new Error('away'), 8]);
  await watch.check();
  await expect(watch.check()).rejects.toThrow('away');
  expect(changes()).toBe(1);
  await watch.check();
  expect(changes()).toBe(2);
});

test('it asks to be run often enough to keep the promise of one second twice over', async () => {
  const { watch, changes } = watching([7]);
  const [chore] = watch.periodicTasks();
  expect(chore?.everyMs).toBe(changePollMs);
  expect(changePollMs).toBeLessThanOrEqual(500);
  await chore?.run();
  expect(changes()).toBe(1);
});
