import { describe, expect, test } from 'bun:test';
import type { IdempotencyClaim, Recording } from '../core/recording.ts';
import { MemoryCacheStore } from './cache-store.ts';
import type { ClaimStore } from './idempotency.ts';
import { Idempotency } from './idempotency.ts';
import { ResponseCache, readDirectives } from './response-cache.ts';

const staying = new AbortController().signal;

const answer: Recording = {
  dialect: 'openai',
  form: 'whole',
  text: 'It rained.',
  model: 'a/b',
  provider: 'p',
};

describe('a kept answer', () => {
  const cacheOf = (bytesMax: number, now: () => number) => {
    const cache = new ResponseCache(new MemoryCacheStore(bytesMax, now), 60, now);
    return (isFit = true) =>
      cache.lookUp('q', readDirectives(null), staying, ({ text }) => (isFit ? text : undefined));
  };

  test('is given again for as long as answers are kept, and no longer', async () => {
    let now = 0;
    const ask = cacheOf(1_000_000, () => now);
    const first = await ask();
    if ('inFlight' in first) await first.inFlight?.finish(answer);
    now = 59_999;
    expect(await ask()).toEqual({ found: 'It rained.' });
    now = 60_000;
    expect(await ask()).toHaveProperty('duty');
  });

  test('goes to all who waited for it, even if it is too long to be kept', async () => {
    const ask = cacheOf(100, () => 0);
    const first = await ask();
    const waiting = [ask(), ask()];
    await Bun.sleep(1);
    if ('inFlight' in first) await first.inFlight?.finish(answer);
    expect(await Promise.all(waiting)).toEqual([{ found: 'It rained.' }, { found: 'It rained.' }]);
    expect(await ask()).toHaveProperty('duty');
  });

  test('is made again by a request that waited for it and cannot use it', async () => {
    const ask = cacheOf(1_000_000, () => 0);
    const first = await ask();
    const waiting = ask(false);
    await Bun.sleep(1);
    if ('inFlight' in first) await first.inFlight?.finish(answer);
    expect(await waiting).toHaveProperty('duty');
  });
});

test('a claim is kept up for as long as its answer is being made and written down', async () => {
  let now = 0;
  let isAway = true;
  const extended: { claims: readonly IdempotencyClaim[]; until: number }[] = [];
  const store: ClaimStore = {
    claim: async () => ({ state: 'ours' }),
    extend: async (claims, until) => {
      extended.push({ claims, until });
    },
    finish: async () => {
      if (isAway) throw new Error('the store is away');
      return true;
    },
    release: async () => {},
    removeExpired: async () => {},
    storedBytes: async () => new Map(),
  };
  const idempotency = new Idempotency(store, () => now);
  const [extend, writeLate] = idempotency.periodicTasks();
  if (!extend || !writeLate) throw new Error('Chores are missing.');
  await extend.run();
  expect(extended).toEqual([]);

  const claim = { tenantId: 't', key: 'k', fingerprint: 'f', requestId: 'r' };
  const asked = await idempotency.lookUp(claim, staying, ({ text }) => text);
  now = 20_000;
  await extend.run();
  // Others take over what was not extended for 30 s; one extension may fail before that.
  expect(extended).toEqual([{ claims: [claim], until: 50_000 }]);
  expect(extend.everyMs).toBeLessThan(15_000);

  if ('inFlight' in asked) await asked.inFlight.finish(answer);
  await extend.run();
  expect(extended).toHaveLength(2);
  isAway = false;
  await writeLate.run();
  await extend.run();
  expect(extended).toHaveLength(2);
});
