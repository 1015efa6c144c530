import { afterEach, describe, expect, setSystemTime, test } from 'bun:test';
import type { CachedRecording } from './cache-store.ts';
import { MemoryCacheStore } from './cache-store.ts';

function recording(text: string): CachedRecording {
  const fields = { dialect: 'openai', form: 'reply', model: 'a/b', provider: 'p', recordedAt: 0 };
  return { ...fields, text } as CachedRecording;
}

/** 1,000 bytes: 250 characters of 2 bytes each, plus 500 bytes for the entry. */
const kilobyte = recording('x'.repeat(250));

afterEach(() => setSystemTime());

describe('MemoryCacheStore', () => {
  test('evicts the least recently used recording when it is full', () => {
    const store = new MemoryCacheStore(3_000);
    for (const name of ['a', 'b', 'c']) store.save(name, kilobyte, 60, name);
    expect(store.bytes).toBe(3_000);
    expect(store.find('a')).toBe(kilobyte);
    store.save('d', kilobyte, 60, 'd');
    expect(store.bytes).toBe(3_000);
    const remaining = ['a', 'b', 'c', 'd'].filter((name) => store.find(name));
    expect(remaining).toEqual(['a', 'c', 'd']);
  });

  test('evicts several recordings to make room for a large one', () => {
    const store = new MemoryCacheStore(4_000);
    for (const name of ['a', 'b', 'c', 'd']) store.save(name, kilobyte, 60, name);
    store.save('large', recording('x'.repeat(750)), 60, 'large');
    expect(store.bytes).toBe(4_000);
    const remaining = ['a', 'b', 'c', 'd', 'large'].filter((name) => store.find(name));
    expect(remaining).toEqual(['c', 'd', 'large']);
  });

  test('evicts 1% of its recordings at once, but never the one just saved', () => {
    const store = new MemoryCacheStore(1_000_000);
    for (let entry = 0; entry < 1_001; entry += 1) store.save(`${entry}`, kilobyte, 60, `${entry}`);
    expect(store.bytes).toBe(990_000);
    expect(['10', '11', '1000'].map((name) => store.find(name))).toEqual([
      undefined,
      kilobyte,
      kilobyte,
    ]);
    store.save('large', recording('x'.repeat(249_750)), 60, 'large');
    expect(store.bytes).toBe(1_000_000);
    expect(store.find('large')).toBeDefined();
  });

  test('skips a recording larger than half of its limit without evicting others', () => {
    const store = new MemoryCacheStore(2_000);
    store.save('a', kilobyte, 60, 'a');
    store.save('b', recording('x'.repeat(251)), 60, 'b');
    expect([store.find('a'), store.find('b'), store.bytes]).toEqual([kilobyte, undefined, 1_000]);
    expect(new MemoryCacheStore(0).find('a')).toBeUndefined();
  });

  test('evicts only recordings of a tenant that uses more than half', () => {
    const store = new MemoryCacheStore(10_000);
    for (const name of ['a', 'b', 'c']) store.save(name, kilobyte, 60, 'neighbor');
    for (let entry = 0; entry < 100; entry += 1) store.save(`${entry}`, kilobyte, 60, 'flood');
    expect(store.bytes).toBe(8_000);
    expect(['a', 'b', 'c', '94', '95', '99'].filter((name) => store.find(name))).toEqual([
      'a',
      'b',
      'c',
      '95',
      '99',
    ]);
  });

  test('replaces a recording with the same key', () => {
    const store = new MemoryCacheStore(10_000);
    store.save('a', kilobyte, 60, 'a');
    store.save('a', recording('short'), 60, 'a');
    expect(store.find('a')?.text).toBe('short');
    expect(store.bytes).toBe(510);
    store.save('a', recording('x'.repeat(10_000)), 60, 'a');
    expect([store.find('a'), store.bytes]).toEqual([undefined, 0]);
  });

  test('removes a recording that has expired', () => {
    let now = 5_000;
    const store = new MemoryCacheStore(10_000, () => now);
    store.save('a', kilobyte, 2, 'a');
    now = 6_999;
    expect(store.find('a')).toBe(kilobyte);
    now = 7_000;
    expect(store.find('a')).toBeUndefined();
    expect(store.bytes).toBe(0);
  });

  test('ignores changes of the system clock', () => {
    const store = new MemoryCacheStore(10_000);
    store.save('a', kilobyte, 60, 'a');
    setSystemTime(Date.now() + 3_600_000);
    expect(store.find('a')).toBe(kilobyte);
  });
});
