import { afterEach, describe, expect, setSystemTime, test } from 'bun:test';
import type { CachedRecording } from './cache-store.ts';
import { MemoryCacheStore } from './cache-store.ts';

function recording(text: string): CachedRecording {
  const made = { dialect: 'openai', form: 'whole', model: 'a/b', provider: 'p', recordedAt: 0 };
  return { ...made, text } as CachedRecording;
}

/** A thousand bytes: 250 characters of two, and 500 for its place. */
const thousand = recording('x'.repeat(250));

afterEach(() => setSystemTime());

describe('the shelf in memory', () => {
  test('keeps as much as fits, and forgets what was not asked for longest', () => {
    const store = new MemoryCacheStore(3_000);
    for (const name of ['a', 'b', 'c']) store.save(name, thousand, 60);
    expect(store.bytes).toBe(3_000);
    expect(store.find('a')).toBe(thousand);
    store.save('d', thousand, 60);
    expect(store.bytes).toBe(3_000);
    const left = ['a', 'b', 'c', 'd'].filter((name) => store.find(name));
    expect(left).toEqual(['a', 'c', 'd']);
  });

  test('forgets as many as a large one needs', () => {
    const store = new MemoryCacheStore(3_000);
    for (const name of ['a', 'b', 'c']) store.save(name, thousand, 60);
    store.save('large', recording('x'.repeat(750)), 60);
    expect(store.bytes).toBe(3_000);
    expect(['a', 'b', 'c', 'large'].filter((name) => store.find(name))).toEqual(['c', 'large']);
  });

  test('forgets one in a hundred at once, and never what it was just given', () => {
    const store = new MemoryCacheStore(1_000_000);
    for (let entry = 0; entry < 1_001; entry += 1) store.save(`${entry}`, thousand, 60);
    expect(store.bytes).toBe(990_000);
    expect(['10', '11', '1000'].map((name) => store.find(name))).toEqual([
      undefined,
      thousand,
      thousand,
    ]);
    store.save('large', recording('x'.repeat(499_750)), 60);
    expect(store.bytes).toBe(1_000_000);
    expect(store.find('large')).toBeDefined();
  });

  test('does not keep what is larger than itself, and loses nothing for it', () => {
    const store = new MemoryCacheStore(1_000);
    store.save('a', thousand, 60);
    store.save('b', recording('x'.repeat(251)), 60);
    expect([store.find('a'), store.find('b'), store.bytes]).toEqual([thousand, undefined, 1_000]);
    expect(new MemoryCacheStore(0).find('a')).toBeUndefined();
  });

  test('replaces what it has under a name', () => {
    const store = new MemoryCacheStore(10_000);
    store.save('a', thousand, 60);
    store.save('a', recording('short'), 60);
    expect(store.find('a')?.text).toBe('short');
    expect(store.bytes).toBe(510);
    store.save('a', recording('x'.repeat(10_000)), 60);
    expect([store.find('a'), store.bytes]).toEqual([undefined, 0]);
  });

  test('gives no expired recording, and frees its room', () => {
    let now = 5_000;
    const store = new MemoryCacheStore(10_000, () => now);
    store.save('a', thousand, 2);
    now = 6_999;
    expect(store.find('a')).toBe(thousand);
    now = 7_000;
    expect(store.find('a')).toBeUndefined();
    expect(store.bytes).toBe(0);
  });

  test('measures time by itself, whatever the clock of the machine is set to', () => {
    const store = new MemoryCacheStore(10_000);
    store.save('a', thousand, 60);
    setSystemTime(Date.now() + 3_600_000);
    expect(store.find('a')).toBe(thousand);
  });
});
