import { heapStats } from 'bun:jsc';
import { afterEach, expect, jest, test } from 'bun:test';
import { getEventListeners } from 'node:events';
import { TenantReadQueue } from './read-queue.ts';

const tooMany = {
  status: 429,
  symbol: 'rate_limit_exceeded',
  message: 'This account has too many reads running or waiting. Send fewer at a time.',
  retryAfterSeconds: 1,
};
/** What the store would say: the caller is not to blame for earlier reads that hang. */
const tooLong = {
  status: 503,
  symbol: 'service_unavailable',
  message: 'Earlier reads of this account are taking too long. Try again shortly.',
  retryAfterSeconds: 2,
};
const patient = 60_000;

afterEach(() => jest.useRealTimers());

/** Reads that end when told to; `begun` has those that have begun, in order. */
function reads(bounds?: ConstructorParameters<typeof TenantReadQueue>[0]) {
  const turns = new TenantReadQueue(bounds);
  const begun: string[] = [];
  const ends = new Map<string, PromiseWithResolvers<string>>();
  const start = (name: string, tenantId = 'acme', client = new AbortController().signal) => {
    const end = Promise.withResolvers<string>();
    ends.set(name, end);
    return turns.run(tenantId, client, () => {
      begun.push(name);
      return end.promise;
    });
  };
  const end = (name: string) => ends.get(name)?.resolve(name);
  const fail = (name: string) => ends.get(name)?.reject(new Error(name));
  return { begun, start, end, fail };
}

test('reads beyond the bound begin in the order in which they came, as others end', async () => {
  const { begun, start, end } = reads({ atOnceMax: 2, waitingMax: 9, waitMs: patient });
  const [a, b, c, d, e] = ['a', 'b', 'c', 'd', 'e'].map((name) => start(name));
  expect(begun).toEqual(['a', 'b']);
  // Those that wait have been told to end; each does as soon as it has begun.
  for (const name of ['b', 'c', 'd', 'e']) end(name);
  expect(await Promise.all([b, c, d, e])).toEqual(['b', 'c', 'd', 'e']);
  expect(begun).toEqual(['a', 'b', 'c', 'd', 'e']);
  end('a');
  expect(await a).toBe('a');
});

test('others get their turn before a read that has waited begins', async () => {
  const { begun, start, end } = reads({ atOnceMax: 1, waitingMax: 9, waitMs: patient });
  const [a, b] = ['a', 'b'].map((name) => start(name));
  for (const name of ['a', 'b']) end(name);
  await a;
  // Everything runs that needs no socket and no timer.
  for (let step = 0; step < 100; step += 1) await Promise.resolve();
  expect(begun).toEqual(['a']);
  expect(await b).toBe('b');
});

test('a read that fails gives its turn on', async () => {
  const { begun, start, end, fail } = reads({ atOnceMax: 1, waitingMax: 9, waitMs: patient });
  const [a, b] = ['a', 'b'].map((name) => start(name));
  fail('a');
  await expect(a).rejects.toThrow('a');
  end('b');
  expect(await b).toBe('b');
  expect(begun).toEqual(['a', 'b']);
});

test('a tenant that waits does not keep others waiting', async () => {
  const { begun, start, end } = reads({ atOnceMax: 1, waitingMax: 9, waitMs: patient });
  const all = [start('a'), start('b'), start('theirs', 'other')];
  expect(begun).toEqual(['a', 'theirs']);
  for (const name of ['a', 'b', 'theirs']) end(name);
  expect(await Promise.all(all)).toEqual(['a', 'b', 'theirs']);
});

test('a read that finds too many waiting is refused', async () => {
  const { begun, start, end } = reads({ atOnceMax: 1, waitingMax: 1, waitMs: patient });
  const [a, b] = ['a', 'b'].map((name) => start(name));
  await expect(start('c')).rejects.toMatchObject(tooMany);
  for (const name of ['a', 'b']) end(name);
  await Promise.all([a, b]);
  const again = start('d');
  end('d');
  expect(await again).toBe('d');
  expect(begun).toEqual(['a', 'b', 'd']);
});

test('a read that waits too long is refused, and leaves its place in the line', async () => {
  const { begun, start, end } = reads({ atOnceMax: 1, waitingMax: 1, waitMs: 1 });
  const a = start('a');
  await expect(start('b')).rejects.toMatchObject(tooLong);
  end('a');
  await a;
  expect(begun).toEqual(['a']);
});

test('two reads run at once, and a hundred wait half a minute, unless told otherwise', async () => {
  jest.useFakeTimers();
  const { begun, start } = reads();
  for (const name of ['a', 'b']) void start(name);
  const refusals: unknown[] = [];
  const refusedAfter = async (ms: number) => {
    jest.advanceTimersByTime(ms);
    // A refusal takes a few steps from the timer to here.
    for (let step = 0; step < 100; step += 1) await Promise.resolve();
    return refusals.splice(0);
  };
  for (let number = 0; number < 101; number += 1) {
    void start(`${number}`).catch((error: unknown) => refusals.push(error));
  }
  expect(await refusedAfter(1)).toMatchObject([tooMany]);
  expect(await refusedAfter(29_998)).toEqual([]);
  expect(await refusedAfter(1)).toMatchObject(Array(100).fill(tooLong));
  expect(begun).toEqual(['a', 'b']);
});

test('a read that gets its turn leaves neither a timer nor a listener behind', async () => {
  jest.useFakeTimers();
  const { start, end } = reads({ atOnceMax: 1, waitingMax: 1, waitMs: patient });
  const { signal } = new AbortController();
  const left = () => [jest.getTimerCount(), getEventListeners(signal, 'abort').length];
  const all = [start('a'), start('b', 'acme', signal)];
  expect(left()).toEqual([1, 1]);
  for (const name of ['a', 'b']) end(name);
  await all[0];
  // The pause before a read that has waited.
  jest.advanceTimersByTime(1);
  expect(await all[1]).toBe('b');
  expect(left()).toEqual([0, 0]);
});

test('a tenant whose reads have ended takes no memory', async () => {
  const { start, end } = reads();
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

test('a client that goes while it waits leaves its place, and nothing is read for it', async () => {
  const { begun, start, end } = reads({ atOnceMax: 1, waitingMax: 1, waitMs: patient });
  const client = new AbortController();
  const all = [start('a'), start('left', 'acme', client.signal)];
  client.abort();
  all.push(start('gone', 'acme', client.signal), start('b'));
  for (const name of ['a', 'left', 'gone', 'b']) end(name);
  const outcomes = await Promise.allSettled(all);
  const served = outcomes.map(({ status }) => status === 'fulfilled');
  expect(served).toEqual([true, false, false, true]);
  expect(begun).toEqual(['a', 'b']);
});
