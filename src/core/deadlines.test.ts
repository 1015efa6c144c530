import { describe, expect, test } from 'bun:test';
import { ActiveClock } from '../../tests/support/active-clock.ts';
import { boundedCall, Deadline, DeadlineWatcher } from './deadlines.ts';

/** A deadline that counts its calls of `fire` and can run a callback first. */
class TestDeadline extends Deadline {
  readonly #fired = Promise.withResolvers<void>();
  readonly #onFire: () => void;
  fireCount = 0;

  constructor(inMs: number, onFire = () => {}) {
    super();
    this.#onFire = onFire;
    this.at = performance.now() + inMs;
  }

  get fired(): Promise<void> {
    return this.#fired.promise;
  }

  fire(): void {
    this.#onFire();
    this.fireCount += 1;
    this.at = Number.POSITIVE_INFINITY;
    this.#fired.resolve();
  }
}

/** Blocks the thread, like a suspended machine. */
const sleep = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

describe('DeadlineWatcher', () => {
  test('fires deadlines that have passed, but not deadlines that were moved', async () => {
    const watcher = new DeadlineWatcher();
    const [soon, moved] = [new TestDeadline(50), new TestDeadline(50)];
    watcher.add(soon);
    watcher.add(moved);
    moved.at = Number.POSITIVE_INFINITY;
    const due = soon.at;
    using activeClock = new ActiveClock();
    await soon.fired;
    expect(performance.now()).toBeGreaterThanOrEqual(due);
    expect(activeClock.ms).toBeLessThan(900);
    expect([soon.fireCount, moved.fireCount]).toEqual([1, 0]);
    watcher.remove(soon);
    watcher.remove(moved);
  });

  test('does not fire a deadline that another one removed in the same tick', async () => {
    const watcher = new DeadlineWatcher();
    const second = new TestDeadline(0);
    const first = new TestDeadline(0, () => watcher.remove(second));
    watcher.add(first);
    watcher.add(second);
    await first.fired;
    watcher.remove(first);
    expect(second.fireCount).toBe(0);
  });

  test('keeps the other deadlines when some are removed, in any order', async () => {
    const watcher = new DeadlineWatcher();
    const [removed, removed2] = [new TestDeadline(50), new TestDeadline(50)];
    const remaining = [new TestDeadline(50), new TestDeadline(50), new TestDeadline(50)];
    for (const one of [removed, ...remaining, removed2]) watcher.add(one);
    for (const one of [removed, removed2, removed]) watcher.remove(one);
    await Promise.all(remaining.map(({ fired }) => fired));
    for (const one of remaining) watcher.remove(one);
    expect([...remaining, removed, removed2].map(({ fireCount }) => fireCount)).toEqual([
      1, 1, 1, 0, 0,
    ]);
  });

  test('delays due deadlines after a late tick, but only once', async () => {
    const watcher = new DeadlineWatcher();
    const [due, answered] = [new TestDeadline(50), new TestDeadline(50)];
    watcher.add(due);
    watcher.add(answered);
    // Simulates data that arrived while the process was suspended and is read now.
    setTimeout(() => {
      answered.at = Number.POSITIVE_INFINITY;
    }, 150);
    sleep(400);
    while (due.fireCount === 0) {
      await Bun.sleep(1);
      sleep(300);
    }
    watcher.remove(due);
    watcher.remove(answered);
    expect([due.fireCount, answered.fireCount]).toEqual([1, 0]);
  });

  test('waits after a suspension until other threads have read received data', async () => {
    const watcher = new DeadlineWatcher();
    const due = new TestDeadline(50);
    watcher.add(due);
    sleep(400);
    const awokenAt = performance.now();
    await due.fired;
    watcher.remove(due);
    expect(performance.now() - awokenAt).toBeGreaterThan(250);
  });

  test('delays due deadlines again when the process is suspended twice', async () => {
    const watcher = new DeadlineWatcher();
    const [due, answered] = [new TestDeadline(50), new TestDeadline(50)];
    watcher.add(due);
    watcher.add(answered);
    // Runs between the first tick and the second.
    setTimeout(() => {
      sleep(400);
      setTimeout(() => {
        answered.at = Number.POSITIVE_INFINITY;
      }, 50);
    }, 110);
    sleep(400);
    await due.fired;
    watcher.remove(due);
    watcher.remove(answered);
    expect([due.fireCount, answered.fireCount]).toEqual([1, 0]);
  });

  test('restarts its ticker after all deadlines were removed', async () => {
    const watcher = new DeadlineWatcher();
    const early = new TestDeadline(0);
    watcher.add(early);
    watcher.remove(early);
    const late = new TestDeadline(0);
    watcher.add(late);
    await late.fired;
    watcher.remove(late);
    expect([early.fireCount, late.fireCount]).toEqual([0, 1]);
  });
});

const hourMs = 3_600_000;

/** A call that runs until its signal aborts. */
function untilAborted(signal: AbortSignal): Promise<string> {
  if (signal.aborted) return Promise.resolve('aborted at the start');
  const ended = Promise.withResolvers<string>();
  signal.addEventListener('abort', () => ended.resolve('aborted'));
  return ended.promise;
}

test('boundedCall aborts the call after its timeout', async () => {
  expect(await boundedCall(1, undefined, untilAborted)).toBe('aborted');
});

test('boundedCall aborts the call when the client disconnects', async () => {
  const client = new AbortController();
  const call = boundedCall(hourMs, client.signal, untilAborted);
  client.abort();
  expect(await call).toBe('aborted');
});

test('boundedCall passes an aborted signal if the client has already disconnected', async () => {
  expect(await boundedCall(hourMs, AbortSignal.abort(), untilAborted)).toBe('aborted at the start');
});

test('boundedCall aborts its signal after the call has returned, not before', async () => {
  let callSignal: AbortSignal | undefined;
  const answer = await boundedCall(hourMs, undefined, async (signal) => {
    callSignal = signal;
    return signal.aborted ? 'too late' : 'an answer';
  });
  expect([answer, callSignal?.aborted]).toEqual(['an answer', true]);
});

test('boundedCall aborts its signal after a failure and rethrows the error', async () => {
  let callSignal: AbortSignal | undefined;
  const call = boundedCall(hourMs, undefined, (signal) => {
    callSignal = signal;
    return Promise.reject(new Error('refused'));
  });
  expect(call).rejects.toThrow('refused');
  await call.catch(() => undefined);
  expect(callSignal?.aborted).toBe(true);
});
