import { describe, expect, test } from 'bun:test';
import { Awake } from '../../tests/support/awake.ts';
import { boundedCall, Deadline, DeadlineWatcher } from './deadlines.ts';

/** A waiting one that tells when it was fired, and may do something first. */
class Told extends Deadline {
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
    const watch = new DeadlineWatcher();
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
    const watch = new DeadlineWatcher();
    const second = new Told(0);
    const first = new Told(0, () => watch.remove(second));
    watch.add(first);
    watch.add(second);
    await first.fired;
    watch.remove(first);
    expect(second.times).toBe(0);
  });

  test('keeps the others when one of them goes, in whatever order', async () => {
    const watch = new DeadlineWatcher();
    const [going, going2] = [new Told(50), new Told(50)];
    const staying = [new Told(50), new Told(50), new Told(50)];
    for (const one of [going, ...staying, going2]) watch.add(one);
    for (const one of [going, going2, going]) watch.remove(one);
    await Promise.all(staying.map(({ fired }) => fired));
    for (const one of staying) watch.remove(one);
    expect([...staying, going, going2].map(({ times }) => times)).toEqual([1, 1, 1, 0, 0]);
  });

  test('gives those who are due some time after a late tick, and only once', async () => {
    const watch = new DeadlineWatcher();
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
    const watch = new DeadlineWatcher();
    const due = new Told(50);
    watch.add(due);
    sleep(400);
    const awokenAt = performance.now();
    await due.fired;
    watch.remove(due);
    expect(performance.now() - awokenAt).toBeGreaterThan(250);
  });

  test('gives that time to a process that is stopped twice, too', async () => {
    const watch = new DeadlineWatcher();
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
    const watch = new DeadlineWatcher();
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

const hourMs = 3_600_000;

/** A call that goes on until it is told that its time is over. */
function untilOver(over: AbortSignal): Promise<string> {
  if (over.aborted) return Promise.resolve('over before it began');
  const ended = Promise.withResolvers<string>();
  over.addEventListener('abort', () => ended.resolve('over'));
  return ended.promise;
}

test('a call hears when its time is over', async () => {
  expect(await boundedCall(1, undefined, untilOver)).toBe('over');
});

test('a call hears when its client leaves', async () => {
  const client = new AbortController();
  const call = boundedCall(hourMs, client.signal, untilOver);
  client.abort();
  expect(await call).toBe('over');
});

test('a call for a client that has left hears so from the beginning', async () => {
  expect(await boundedCall(hourMs, AbortSignal.abort(), untilOver)).toBe('over before it began');
});

test('what a call left open is closed once it has an answer, and not before', async () => {
  let told: AbortSignal | undefined;
  const answer = await boundedCall(hourMs, undefined, async (over) => {
    told = over;
    return over.aborted ? 'too late' : 'an answer';
  });
  expect([answer, told?.aborted]).toEqual(['an answer', true]);
});

test('what a failed call left open is closed too, and its failure is passed on', async () => {
  let told: AbortSignal | undefined;
  const call = boundedCall(hourMs, undefined, (over) => {
    told = over;
    return Promise.reject(new Error('refused'));
  });
  expect(call).rejects.toThrow('refused');
  await call.catch(() => undefined);
  expect(told?.aborted).toBe(true);
});
