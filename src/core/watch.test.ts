import { describe, expect, test } from 'bun:test';
import { Awake } from '../../tests/support/awake.ts';
import { Waiting, Watch } from './watch.ts';

/** A waiting one that tells when it was fired, and may do something first. */
class Told extends Waiting {
  readonly #fired = Promise.withResolvers<void>();
  readonly #first: () => void;
  times = 0;

  constructor(inMs: number, first = () => {}) {
    super();
    this.#first = first;
    this.at = performance.now() + inMs;
  }

  get fired(): Promise<void> {
    return this.#fired.promise;
  }

  fire(): void {
    this.#first();
    this.times += 1;
    this.at = Number.POSITIVE_INFINITY;
    this.#fired.resolve();
  }
}

/** Blocks the whole thread, as a machine that stands still does. */
const sleep = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

describe('the watch', () => {
  test('fires those whose time has come, and not those who moved it', async () => {
    const watch = new Watch();
    const [soon, moved] = [new Told(50), new Told(50)];
    watch.add(soon);
    watch.add(moved);
    moved.at = Number.POSITIVE_INFINITY;
    const due = soon.at;
    using awake = new Awake();
    await soon.fired;
    expect(performance.now()).toBeGreaterThanOrEqual(due);
    expect(awake.ms).toBeLessThan(900);
    expect([soon.times, moved.times]).toEqual([1, 0]);
    watch.remove(soon);
    watch.remove(moved);
  });

  test('forgets those who were taken out, even by another in the same moment', async () => {
    const watch = new Watch();
    const second = new Told(0);
    const first = new Told(0, () => watch.remove(second));
    watch.add(first);
    watch.add(second);
    await first.fired;
    watch.remove(first);
    expect(second.times).toBe(0);
  });

  test('keeps the others when one of them goes, in whatever order', async () => {
    const watch = new Watch();
    const [going, going2] = [new Told(50), new Told(50)];
    const staying = [new Told(50), new Told(50), new Told(50)];
    for (const one of [going, ...staying, going2]) watch.add(one);
    for (const one of [going, going2, going]) watch.remove(one);
    await Promise.all(staying.map(({ fired }) => fired));
    for (const one of staying) watch.remove(one);
    expect([...staying, going, going2].map(({ times }) => times)).toEqual([1, 1, 1, 0, 0]);
  });

  test('gives those who are due some time after a late tick, and only once', async () => {
    const watch = new Watch();
    const [due, answered] = [new Told(50), new Told(50)];
    watch.add(due);
    watch.add(answered);
    // Only then this process can read what came while it slept.
    setTimeout(() => {
      answered.at = Number.POSITIVE_INFINITY;
    }, 150);
    sleep(400);
    while (due.times === 0) {
      await Bun.sleep(1);
      sleep(300);
    }
    watch.remove(due);
    watch.remove(answered);
    expect([due.times, answered.times]).toEqual([1, 0]);
  });

  test('waits until other threads, which slept as well, have read what came', async () => {
    const watch = new Watch();
    const due = new Told(50);
    watch.add(due);
    sleep(400);
    const awokenAt = performance.now();
    await due.fired;
    watch.remove(due);
    expect(performance.now() - awokenAt).toBeGreaterThan(250);
  });

  test('gives that time to a process that is stopped twice, too', async () => {
    const watch = new Watch();
    const [due, answered] = [new Told(50), new Told(50)];
    watch.add(due);
    watch.add(answered);
    // Runs after the first tick and before the second.
    setTimeout(() => {
      sleep(400);
      setTimeout(() => {
        answered.at = Number.POSITIVE_INFINITY;
      }, 50);
    }, 110);
    sleep(400);
    await due.fired;
    watch.remove(due);
    watch.remove(answered);
    expect([due.times, answered.times]).toEqual([1, 0]);
  });

  test('starts again after everybody had gone', async () => {
    const watch = new Watch();
    const early = new Told(0);
    watch.add(early);
    watch.remove(early);
    const late = new Told(0);
    watch.add(late);
    await late.fired;
    watch.remove(late);
    expect([early.times, late.times]).toEqual([0, 1]);
  });
});
