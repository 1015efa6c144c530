/** Processes share the limits of providers' keys through Redis. */
import { expect, test } from 'bun:test';
import type { ProviderKey } from '../../src/config/config.ts';
import { SharedSlots } from '../../src/limits/concurrency.ts';
import { ProviderKeyLimits } from '../../src/limits/provider-key-limits.ts';
import { Catalog } from '../../src/route/catalog.ts';
import { ProviderKeys } from '../../src/route/provider-keys.ts';
import { countScripts, RedisCounts } from '../../src/store/redis/counts.ts';
import { Redis } from '../../src/store/redis/redis.ts';
import { callerOf } from '../support/caller.ts';
import { modelAt, providerNamed, withKeys } from '../support/offers.ts';
import { startRedis } from '../support/redis.ts';

const slowTestMs = 5_000;

/** Two processes of one deployment, which send requests to a provider with these keys. */
async function twoProcesses(url: string, names: readonly string[], limits: Partial<ProviderKey>) {
  const provider = withKeys(providerNamed('north'), names, limits);
  const model = modelAt('a/a', [{ provider: 'north' }]);
  const catalog = new Catalog([model], new Map([['north', provider]]));
  const [offer] = catalog.offers('a/a');
  if (!offer) throw new Error('There is no offer.');
  const start = async (id: string) => {
    const ignore = { onUnreachable: () => undefined, onReconnected: () => undefined };
    const redis = await Redis.open(url, ignore, countScripts, 'deployment', slowTestMs);
    const counts = new RedisCounts(redis);
    const slots = new SharedSlots(counts, id);
    const keys = new ProviderKeys(
      { keySetAside: () => undefined, keyRestored: () => undefined },
      new ProviderKeyLimits({ counts, slots }),
    );
    const request = { caller: callerOf('t'), operation: undefined };
    return {
      keys,
      /** Returns the name of the key and a function that ends the request, or undefined. */
      async send() {
        const rotation = keys.rotationOf(offer, request);
        const taken = await rotation.next();
        const wait = rotation.waitSeconds();
        return { name: taken && rotation.keyName, wait, end: () => rotation.end() };
      },
      statuses: () => keys.statusesOf(provider),
      reported: () => slots.reportReleased(),
      close: () => redis.close(),
    };
  };
  return [await start('one'), await start('two')] as const;
}

test('requests per minute of a key are counted in all processes', async () => {
  await using redis = await startRedis();
  if (!redis) return;
  const [one, two] = await twoProcesses(redis.url, ['a', 'b'], { requestsPerMinute: 1000 });
  const [few, others] = await twoProcesses(redis.url, ['c', 'd'], { requestsPerMinute: 3 });
  // Within limits, each process distributes its own requests.
  expect([(await one.send()).name, (await two.send()).name]).toEqual(['a', 'a']);
  const names: (string | undefined)[] = [];
  for (let i = 0; i < 8; i++) names.push((await (i % 2 === 0 ? few : others).send()).name);
  const count = (name: string | undefined) => names.filter((other) => other === name).length;
  // If a minute begins meanwhile, its requests are counted anew.
  expect(count('c') + count('d')).toBeWithin(6, 9);
  const last = await few.send();
  if (last.name === undefined) expect(last.wait).toBeWithin(0, 60.001);
  for (const process of [one, two, few, others]) process.close();
});

test('concurrent requests of a key are counted in all processes, and freed at their end', async () => {
  await using redis = await startRedis();
  if (!redis) return;
  const [one, two] = await twoProcesses(redis.url, ['a', 'b'], { concurrentRequests: 1 });
  const [first, second] = [await one.send(), await two.send()];
  expect([first.name, second.name]).toEqual(['a', 'b']);
  const third = await two.send();
  expect([third.name, third.wait]).toEqual([undefined, expect.any(Number)]);
  expect(two.statuses().map(({ state }) => state)).toEqual(['waiting', 'waiting']);
  expect(two.statuses().map(({ running }) => running)).toEqual([0, 1]);
  first.end();
  await one.reported();
  const again = await one.send();
  expect(again.name).toBe('a');
  for (const process of [one, two]) process.close();
});

test('each process counts for itself while Redis is unreachable', async () => {
  const redis = await startRedis();
  if (!redis) return;
  const [one, two] = await twoProcesses(redis.url, ['a'], { concurrentRequests: 1 });
  await redis[Symbol.asyncDispose]();
  const [first, second] = [await one.send(), await two.send()];
  expect([first.name, second.name]).toEqual(['a', 'a']);
  expect((await one.send()).name).toBeUndefined();
  first.end();
  expect((await one.send()).name).toBe('a');
  for (const process of [one, two]) process.close();
});
