import { describe, expect, test } from 'bun:test';
import { modelAt, providerNamed, withKeys } from '../../tests/support/offers.ts';
import type { Provider, ProviderKey } from '../config/config.ts';
import { Secret } from '../core/secret.ts';
import { Catalog, type OfferKey } from './catalog.ts';
import { ProviderKeys } from './provider-keys.ts';

const clock = { now: 1_000_000 };

function keysOf(provider: Provider) {
  const events: string[] = [];
  const keys = new ProviderKeys(
    {
      keySetAside: (name, key) => events.push(`${name} ${key} set aside`),
      keyRestored: (name, key) => events.push(`${name} ${key} restored`),
    },
    undefined,
    () => clock.now,
  );
  const catalog = new Catalog(
    [modelAt('a/a', [{ provider: provider.name }])],
    new Map([[provider.name, provider]]),
  );
  const all = catalog.offers('a/a')[0]?.keys ?? [];
  const take = (session: number | null = null, tried: readonly OfferKey[] = []) =>
    keys.take(all, 'm', session, tried);
  return { keys, all, take, events };
}

function weighted(weights: Record<string, number>): Provider {
  const provider = withKeys(providerNamed('north'), Object.keys(weights));
  const keys = provider.keys?.map((key) => ({ ...key, weight: weights[key.name] ?? 1 }));
  return { ...provider, keys };
}

const limitedTo = (limits: Partial<ProviderKey>) =>
  keysOf(withKeys(providerNamed('north'), ['a', 'b'], limits));

const rejection = { kind: 'credential', status: 401, message: 'no', retryAfterSeconds: null };

describe('ProviderKeys', () => {
  test('distributes 10,000 requests by weight, in small turns', () => {
    const { take, keys } = keysOf(weighted({ a: 70, b: 30 }));
    const counts: Record<string, number> = {};
    for (let i = 0; i < 10_000; i++) {
      const taken = take();
      if (!taken) throw new Error('No key was taken.');
      counts[taken.key.name] = (counts[taken.key.name] ?? 0) + 1;
      keys.release(taken);
      if (i === 9) expect(counts).toEqual({ a: 7, b: 3 });
    }
    expect(counts).toEqual({ a: 7_000, b: 3_000 });
  });

  test('keeps a session at one key, distributes sessions by weight, and moves only those of a rejected key', () => {
    const { take, keys, all } = keysOf(weighted({ a: 70, b: 20, c: 10 }));
    const sessions = Array.from({ length: 10_000 }, (_, i) => Bun.hash.xxHash32(`session ${i}`));
    const nameFor = (session: number) => take(session)?.key.name ?? '';
    const before = sessions.map(nameFor);
    const again = sessions.map(nameFor);
    expect(again).toEqual(before);
    const share = (name: string) => before.filter((other) => other === name).length / 10_000;
    expect(Math.abs(share('a') - 0.7)).toBeLessThan(0.02);
    expect(Math.abs(share('b') - 0.2)).toBeLessThan(0.02);
    const [, b] = all;
    if (b) keys.failed(b, 'm', rejection);
    const after = sessions.map(nameFor);
    const moved = sessions.filter((_, i) => before[i] !== after[i]);
    expect(moved).toHaveLength(before.filter((name) => name === 'b').length);
  });

  test('limits the requests of a key at the same time', () => {
    const { take, keys, all } = limitedTo({ concurrentRequests: 1 });
    const first = take();
    expect([first?.key.name, take()?.key.name, take()]).toEqual(['a', 'b', undefined]);
    expect(keys.waitSeconds(all, 'm')).toBe(1);
    if (first) keys.release(first);
    expect(take()?.key.name).toBe('a');
  });

  test('limits the requests of a key in any minute', () => {
    clock.now = 60_000 * 100 + 50_000;
    const { take, keys, all } = limitedTo({ requestsPerMinute: 10 });
    const takeAll = () => {
      let taken = 0;
      while (take()) taken++;
      return taken;
    };
    expect(takeAll()).toBe(20);
    expect(keys.waitSeconds(all, 'm')).toBe(10);
    // 10 seconds later, a new minute has begun, but the requests are still recent.
    clock.now += 10_000;
    expect(takeAll()).toBe(0);
    clock.now += 30_000;
    expect(takeAll()).toBe(10);
  });

  test('waits for a rate limit only with the limited model', () => {
    const { keys, all, take } = limitedTo({});
    const limit = { kind: 'rate_limited', status: 429, message: 'slow', retryAfterSeconds: 7 };
    for (const key of all) keys.failed(key, 'm', limit);
    expect(take()).toBeUndefined();
    expect(keys.take(all, 'other', null, [])?.key.name).toBe('a');
    expect(keys.waitSeconds(all, 'm')).toBe(7);
  });

  test('tries rejected keys again with a new configuration, and forgets replaced ones', () => {
    const provider = withKeys(providerNamed('north'), ['a', 'b']);
    const { keys, all, take, events } = keysOf(provider);
    const [a] = all;
    if (!a) throw new Error('There is no key.');
    keys.failed(a, 'm', rejection);
    expect([take()?.key.name, take()?.key.name]).toEqual(['b', 'b']);
    keys.configure([provider]);
    expect([take()?.key.name, take()?.key.name].toSorted()).toEqual(['a', 'b']);
    keys.accepted(a);
    expect(events).toEqual(['north a set aside', 'north a restored']);
    keys.failed(a, 'm', rejection);
    keys.configure([withKeys({ ...providerNamed('north') }, ['b'])]);
    expect(keys.statusesOf(provider)[0]).toMatchObject({ state: 'available' });
  });

  test('takes no key twice for one request', () => {
    const { all, take } = limitedTo({});
    const [a, b] = all;
    if (!a || !b) throw new Error('There are no keys.');
    expect([take(null, [a]), take(null, [a]), take(null, [a, b])]).toEqual([b, b, undefined]);
  });

  test('lets one request at a time try a rejected key, at least every 10 minutes', () => {
    const provider = withKeys(providerNamed('north'), ['a', 'b']);
    const { keys, all, take } = keysOf(provider);
    const [a] = all;
    if (!a) throw new Error('There is no key.');
    const wait = () => keys.statusesOf(provider)[0]?.retryAfterSeconds;
    keys.failed(a, 'm', rejection);
    const waits = [60, 120, 240, 480, 600, 600];
    for (const seconds of waits) {
      expect(wait()).toBe(seconds);
      clock.now += seconds * 1000;
      const names = Array.from({ length: 4 }, () => take()?.key.name);
      expect(names.filter((name) => name === 'a')).toHaveLength(1);
      keys.failed(a, 'm', rejection);
    }
  });

  test('forgets that a key was rejected when its text is replaced', () => {
    const provider = withKeys(providerNamed('north'), ['a', 'b']);
    const { keys, all } = keysOf(provider);
    for (const key of all) keys.failed(key, 'm', rejection);
    const [a, b] = provider.keys ?? [];
    if (!a || !b) throw new Error('There are no keys.');
    const replaced = { ...a, provider: { ...a.provider, apiKey: new Secret('sk-replaced') } };
    const changed = { ...provider, keys: [replaced, b] };
    keys.configure([changed]);
    const states = keys.statusesOf(changed).map(({ state }) => state);
    expect(states).toEqual(['available', 'set_aside']);
  });
});
