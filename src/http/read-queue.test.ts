import { heapStats } from 'bun:jsc';
import { afterEach, describe, expect, jest, test } from 'bun:test';
import { getEventListeners } from 'node:events';
import { TenantReadQueue } from './read-queue.ts';

const tooMany = {
  status: 429,
  symbol: 'rate_limit_exceeded',
  message:
    'This tenant has too many list and report requests running or queued. Send fewer at a time.',
  retryAfterSeconds: 1,
};
/** The same error as for an outage of the store, because the caller didn't cause the delay. */
const tooLong = {
  status: 503,
  symbol: 'service_unavailable',
  message: "This tenant's earlier list and report requests are taking too long. Try again shortly.",
  retryAfterSeconds: 2,
};
const waitMs = 60_000;

afterEach(() => jest.useRealTimers());

/** Creates reads that a test ends. `started` has the names of the started reads, in order. */
function controlledReads(bounds?: ConstructorParameters<typeof TenantReadQueue>[0]) {
  const queue = new TenantReadQueue(bounds);
  const started: string[] = [];
  const ends = new Map<string, PromiseWithResolvers<string>>();
  const start = (name: string, tenantId = 'acme', clientSignal = new AbortController().signal) => {
    const end = Promise.withResolvers<string>();
    ends.set(name, end);
    return queue.run(tenantId, clientSignal, () => {
      started.push(name);
      return end.promise;
    });
  };
  const end = (name: string) => ends.get(name)?.resolve(name);
  const fail = (name: string) => ends.get(name)?.reject(new Error(name));
  return { started, start, end, fail };
}

describe('TenantReadQueue', () => {
  test('starts queued reads in order of arrival', async () => {
    const { started, start, end } = controlledReads({ atOnceMax: 2, waitingMax: 9, waitMs });
    const [a, b, c, d, e] = ['a', 'b', 'c', 'd', 'e'].map((name) => start(name));
    expect(started).toEqual(['a', 'b']);
    // The queued reads are already resolved, so each ends as soon as it starts.
    for (const name of ['b', 'c', 'd', 'e']) end(name);
    expect(await Promise.all([b, c, d, e])).toEqual(['b', 'c', 'd', 'e']);
    expect(started).toEqual(['a', 'b', 'c', 'd', 'e']);
    end('a');
    expect(await a).toBe('a');
  });

  test('yields to other tasks before it starts a queued read', async () => {
    const { started, start, end } = controlledReads({ atOnceMax: 1, waitingMax: 9, waitMs });
    const [a, b] = ['a', 'b'].map((name) => start(name));
    for (const name of ['a', 'b']) end(name);
    await a;
    // Run everything that needs no socket and no timer.
    for (let step = 0; step < 100; step += 1) await Promise.resolve();
    expect(started).toEqual(['a']);
    expect(await b).toBe('b');
  });

  test('starts the next read after a failed one', async () => {
    const { started, start, end, fail } = controlledReads({ atOnceMax: 1, waitingMax: 9, waitMs });
    const [a, b] = ['a', 'b'].map((name) => start(name));
    fail('a');
    await expect(a).rejects.toThrow('a');
    end('b');
    expect(await b).toBe('b');
    expect(started).toEqual(['a', 'b']);
  });

  test('does not delay other tenants', async () => {
    const { started, start, end } = controlledReads({ atOnceMax: 1, waitingMax: 9, waitMs });
    const all = [start('a'), start('b'), start('other read', 'other')];
    expect(started).toEqual(['a', 'other read']);
    for (const name of ['a', 'b', 'other read']) end(name);
    expect(await Promise.all(all)).toEqual(['a', 'b', 'other read']);
  });

  test('rejects a read with 429 if the queue is full', async () => {
    const { started, start, end } = controlledReads({ atOnceMax: 1, waitingMax: 1, waitMs });
    const [a, b] = ['a', 'b'].map((name) => start(name));
    await expect(start('c')).rejects.toMatchObject(tooMany);
    for (const name of ['a', 'b']) end(name);
    await Promise.all([a, b]);
    const next = start('d');
    end('d');
    expect(await next).toBe('d');
    expect(started).toEqual(['a', 'b', 'd']);
  });

  test('rejects a read that waits too long with 503 and removes it from the queue', async () => {
    const { started, start, end } = controlledReads({ atOnceMax: 1, waitingMax: 1, waitMs: 1 });
    const a = start('a');
    await expect(start('b')).rejects.toMatchObject(tooLong);
    end('a');
    await a;
    expect(started).toEqual(['a']);
  });

  test('runs 2 reads at once and queues 100 for 30 seconds by default', async () => {
    jest.useFakeTimers();
    const { started, start } = controlledReads();
    for (const name of ['a', 'b']) void start(name);
    const errors: unknown[] = [];
    const errorsAfter = async (ms: number) => {
      jest.advanceTimersByTime(ms);
      // An error takes a few microtasks from the timer to the handler below.
      for (let step = 0; step < 100; step += 1) await Promise.resolve();
      return errors.splice(0);
    };
    for (let number = 0; number < 101; number += 1) {
      void start(`${number}`).catch((error: unknown) => errors.push(error));
    }
    expect(await errorsAfter(1)).toMatchObject([tooMany]);
    expect(await errorsAfter(29_998)).toEqual([]);
    expect(await errorsAfter(1)).toMatchObject(Array(100).fill(tooLong));
    expect(started).toEqual(['a', 'b']);
  });

  test('removes the timer and the abort listener of a started read', async () => {
    jest.useFakeTimers();
    const { start, end } = controlledReads({ atOnceMax: 1, waitingMax: 1, waitMs });
    const { signal } = new AbortController();
    const leaks = () => [jest.getTimerCount(), getEventListeners(signal, 'abort').length];
    const all = [start('a'), start('b', 'acme', signal)];
    expect(leaks()).toEqual([1, 1]);
    for (const name of ['a', 'b']) end(name);
    await all[0];
    // The pause before a queued read starts.
    jest.advanceTimersByTime(1);
    expect(await all[1]).toBe('b');
    expect(leaks()).toEqual([0, 0]);
  });

  test('keeps no memory for tenants without running reads', async () => {
    const { start, end } = controlledReads();
    const tenants = Array.from({ length: 1_000 }, (_, number) => `tenant ${number}`);
    const sets = () => {
      Bun.gc(true);
      return heapStats().objectTypeCounts.Set ?? 0;
    };
    const before = sets();
    for (const tenantId of tenants) {
      const read = start(tenantId, tenantId);
      end(tenantId);
      await read;
    }
    expect(sets() - before).toBeLessThan(tenants.length / 10);
  });

  test('removes the queued reads of a disconnected client without starting them', async () => {
    const { started, start, end } = controlledReads({ atOnceMax: 1, waitingMax: 1, waitMs });
    const client = new AbortController();
    const all = [start('a'), start('queued', 'acme', client.signal)];
    client.abort();
    all.push(start('late', 'acme', client.signal), start('b'));
    for (const name of ['a', 'queued', 'late', 'b']) end(name);
    const outcomes = await Promise.allSettled(all);
    const fulfilled = outcomes.map(({ status }) => status === 'fulfilled');
    expect(fulfilled).toEqual([true, false, false, true]);
    expect(started).toEqual(['a', 'b']);
  });
});
