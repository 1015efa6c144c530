import { describe, expect, test } from 'bun:test';
import { Watch } from './watch.ts';

/** A waiting one that tells when it was fired. */
function waiting(inMs: number) {
  const fired = Promise.withResolvers<number>();
  let times = 0;
  const self = {
    at: performance.now() + inMs,
    fire() {
      times += 1;
      self.at = Number.POSITIVE_INFINITY;
      fired.resolve(performance.now());
    },
  };
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
    const [first, second] = [waiting(0), waiting(0)];
    const { fire } = first.self;
    first.self.fire = () => {
      watch.remove(second.self);
      fire();
    };
    watch.add(first.self);
    watch.add(second.self);
    await first.fired;
    watch.remove(first.self);
    expect(second.times()).toBe(0);
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
