import { describe, expect, test } from 'bun:test';
import { changePollMs } from '../core/bounds.ts';
import { type ChangedTenants, ChangeWatcher } from './tenant-directory.ts';

function watchVersions(versions: (number | Error)[]) {
  let changes = 0;
  const reported: ChangedTenants[] = [];
  const directory = {
    async version(): Promise<number> {
      const next = versions.shift();
      if (typeof next === 'number') return next;
      throw next ?? new Error('no more versions');
    },
    tenantsChanged: async (after: number, until: number) => new Set([`${after} to ${until}`]),
  };
  const watch = new ChangeWatcher(directory, (tenants) => {
    changes++;
    reported.push(tenants);
  });
  return { watch, reported, changes: () => changes };
}

describe('ChangeWatcher', () => {
  test('reports each change of the version once', async () => {
    const { watch, changes } = watchVersions([7, 7, 8, 8, 10]);
    const seen: number[] = [];
    for (let i = 0; i < 5; i++) {
      await watch.check();
      seen.push(changes());
    }
    // The first check reports a change, because cached data may be older than this version.
    expect(seen).toEqual([1, 1, 2, 2, 3]);
  });

  test('reports the tenants that changed since the last version, and all at first', async () => {
    const { watch, reported } = watchVersions([7, 8, 10]);
    for (let i = 0; i < 3; i++) await watch.check();
    expect(reported).toEqual([null, new Set(['7 to 8']), new Set(['8 to 10'])]);
  });

  test('notices changes that occurred while the store was unreachable', async () => {
    const { watch, changes } = watchVersions([7, new Error('away'), 8]);
    await watch.check();
    await expect(watch.check()).rejects.toThrow('away');
    expect(changes()).toBe(1);
    await watch.check();
    expect(changes()).toBe(2);
  });

  test('runs at least every 500 ms as a periodic task', async () => {
    const { watch, changes } = watchVersions([7]);
    const [task] = watch.periodicTasks();
    expect(task?.everyMs).toBe(changePollMs);
    expect(changePollMs).toBeLessThanOrEqual(500);
    await task?.run();
    expect(changes()).toBe(1);
  });
});
