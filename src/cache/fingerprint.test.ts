import { describe, expect, test } from 'bun:test';
import { canonical, fingerprint } from './fingerprint.ts';

describe('the canonical text', () => {
  test('is the same whatever the order of keys, at every depth', () => {
    const one = { b: [{ y: 1, x: null }], a: 'ä' };
    const other = { a: 'ä', b: [{ x: null, y: 1 }] };
    expect(canonical(one)).toBe('{"a":"ä","b":[{"x":null,"y":1}]}');
    expect(canonical(other)).toBe(canonical(one));
  });

  test('leaves undefined fields out and keeps the order of lists', () => {
    expect(canonical({ a: undefined, b: 1 })).toBe('{"b":1}');
    expect(canonical([2, 1])).toBe('[2,1]');
    expect(canonical([undefined])).toBe('[null]');
  });
});

describe('a fingerprint', () => {
  test('tells apart what a careless join would not', () => {
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
