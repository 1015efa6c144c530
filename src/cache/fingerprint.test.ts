import { describe, expect, test } from 'bun:test';
import { fingerprint } from './fingerprint.ts';

describe('fingerprint', () => {
  test.each<[string, unknown, unknown]>([
    [
      'the order of keys, at every depth',
      { b: [{ y: 1, x: null }], a: 'ä' },
      { a: 'ä', b: [{ x: null, y: 1 }] },
    ],
    ['fields that are undefined', { a: undefined, b: 1 }, { b: 1 }],
  ])('ignores %s', (_, one, other) => {
    expect(fingerprint([one])).toBe(fingerprint([other]));
  });

  test.each<[string, unknown, unknown]>([
    ['the order of lists', [2, 1], [1, 2]],
    ['undefined items of lists', [undefined, 1], [1]],
    ['fields that are null', { a: null, b: 1 }, { b: 1 }],
    ['field names', { a: 1 }, { b: 1 }],
  ])('depends on %s', (_, one, other) => {
    expect(fingerprint([one])).not.toBe(fingerprint([other]));
  });

  test('distinguishes lists that a plain join would confuse', () => {
    const lists: unknown[][] = [
      ['ab', 'c'],
      ['a', 'bc'],
      ['abc'],
      ['ab,c'],
      [['ab', 'c']],
      ['ab', 'c', null],
      ['ab', { c: 1 }],
      ['ab', '{"c":1}'],
      ['ab', 1],
      ['ab', '1'],
      ['ab', true],
    ];
    expect(new Set(lists.map(fingerprint)).size).toBe(lists.length);
  });

  test('has 256 bits', () => {
    expect(fingerprint([])).toMatch(/^[\w-]{43}$/);
  });
});
