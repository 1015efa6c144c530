import { describe, expect, test } from 'bun:test';
import { Waiting, Watch } from './watch.ts';

/** A waiting one that tells when it was fired, and may do something first. */
function waiting(inMs: number, first = () => {}) {
  const fired = Promise.withResolvers<number>();
  let times = 0;
  const self = new Waiting(() => {
    first();
    times += 1;
    self.at = Number.POSITIVE_INFINITY;
    fired.resolve(performance.now());
  });
  self.at = performance.now() + inMs;
  return { self, fired: fired.promise, times: () => times };
}

describe('the watch', () => {
  test('fires those whose time has come, and not those who moved it', async () => {
    const watch = new Watch();
    const [soon, moved] = [waiting(50), waiting(50)];
    watch.add(soon.self);
    watch.add(moved.self);
    moved.self.at = Number.POSITIVE_INFINITY;
    const due = soon.self.at;
    expect((await soon.fired) - due).toBeLessThan(250);
    expect([soon.times(), moved.times()]).toEqual([1, 0]);
    watch.remove(soon.self);
    watch.remove(moved.self);
  });

  test('forgets those who were taken out, even by another in the same moment', async () => {
    const watch = new Watch();
    const second = waiting(0);
    const first = waiting(0, () => watch.remove(second.self));
    watch.add(first.self);
    watch.add(second.self);
    await first.fired;
    watch.remove(first.self);
    expect(second.times()).toBe(0);
  });

  test('keeps the others when one of them goes, in whatever order', async () => {
    const watch = new Watch();
    const all = [waiting(50), waiting(50), waiting(50), waiting(50), waiting(50)];
    for (const { self } of all) watch.add(self);
    for (const at of [0, 3, 0]) watch.remove(all[at]?.self ?? new Waiting(() => {}));
    await Promise.all([all[1]?.fired, all[2]?.fired, all[4]?.fired]);
    for (const { self } of all) watch.remove(self);
    expect(all.map(({ times }) => times())).toEqual([0, 1, 1, 0, 1]);
  });

  test('starts again after everybody had gone', async () => {
    const watch = new Watch();
    const early = waiting(0);
    watch.add(early.self);
    watch.remove(early.self);
    const late = waiting(0);
    watch.add(late.self);
    await late.fired;
    watch.remove(late.self);
    expect([early.times(), late.times()]).toEqual([0, 1]);
  });
});
