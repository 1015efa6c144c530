import { afterEach, describe, expect, setSystemTime, test } from 'bun:test';
import { MemoryShelf } from './memory-shelf.ts';
import type { Kept } from './shelf.ts';

function recording(text: string): Kept {
  const made = { dialect: 'openai', form: 'whole', model: 'a/b', provider: 'p', recordedAt: 0 };
  return { ...made, text } as Kept;
}

/** A thousand bytes: 250 characters of two, and 500 for its place. */
const thousand = recording('x'.repeat(250));

afterEach(() => setSystemTime());

describe('the shelf in memory', () => {
  test('keeps as much as fits, and forgets what was not asked for longest', () => {
    const shelf = new MemoryShelf(3_000);
    for (const name of ['a', 'b', 'c']) shelf.keep(name, thousand, 60);
    expect(shelf.bytes).toBe(3_000);
    expect(shelf.find('a')).toBe(thousand);
    shelf.keep('d', thousand, 60);
    expect(shelf.bytes).toBe(3_000);
    const left = ['a', 'b', 'c', 'd'].filter((name) => shelf.find(name));
    expect(left).toEqual(['a', 'c', 'd']);
  });

  test('forgets as many as a large one needs', () => {
    const shelf = new MemoryShelf(3_000);
    for (const name of ['a', 'b', 'c']) shelf.keep(name, thousand, 60);
    shelf.keep('large', recording('x'.repeat(750)), 60);
    expect(shelf.bytes).toBe(3_000);
    expect(['a', 'b', 'c', 'large'].filter((name) => shelf.find(name))).toEqual(['c', 'large']);
  });

  test('forgets one in a hundred at once, and never what it was just given', () => {
    const shelf = new MemoryShelf(1_000_000);
    for (let place = 0; place < 1_001; place += 1) shelf.keep(`${place}`, thousand, 60);
    expect(shelf.bytes).toBe(990_000);
    expect(['10', '11', '1000'].map((name) => shelf.find(name))).toEqual([
      undefined,
      thousand,
      thousand,
    ]);
    shelf.keep('large', recording('x'.repeat(499_750)), 60);
    expect(shelf.bytes).toBe(1_000_000);
    expect(shelf.find('large')).toBeDefined();
  });

  test('does not keep what is larger than itself, and loses nothing for it', () => {
    const shelf = new MemoryShelf(1_000);
    shelf.keep('a', thousand, 60);
    shelf.keep('b', recording('x'.repeat(251)), 60);
    expect([shelf.find('a'), shelf.find('b'), shelf.bytes]).toEqual([thousand, undefined, 1_000]);
    expect(new MemoryShelf(0).find('a')).toBeUndefined();
  });

  test('replaces what it has under a name', () => {
    const shelf = new MemoryShelf(10_000);
    shelf.keep('a', thousand, 60);
    shelf.keep('a', recording('short'), 60);
    expect(shelf.find('a')?.text).toBe('short');
    expect(shelf.bytes).toBe(510);
    shelf.keep('a', recording('x'.repeat(10_000)), 60);
    expect([shelf.find('a'), shelf.bytes]).toEqual([undefined, 0]);
  });

  test('gives no expired recording, and frees its room', () => {
    let now = 5_000;
    const shelf = new MemoryShelf(10_000, () => now);
    shelf.keep('a', thousand, 2);
    now = 6_999;
    expect(shelf.find('a')).toBe(thousand);
    now = 7_000;
    expect(shelf.find('a')).toBeUndefined();
    expect(shelf.bytes).toBe(0);
  });

  test('measures time by itself, whatever the clock of the machine is set to', () => {
    const shelf = new MemoryShelf(10_000);
    shelf.keep('a', thousand, 60);
    setSystemTime(Date.now() + 3_600_000);
    expect(shelf.find('a')).toBe(thousand);
  });
});
