import { describe, expect, test } from 'bun:test';
import { readAnswer } from './read-answer.ts';

const read = (text: string) => readAnswer(text, () => 'read');

describe('an answer that is read whole', () => {
  test('has vectors of many numbers', () => {
    expect(read(`{"data":[[${'1,'.repeat(2_000_000)}1]]}`)).toBe('read');
  });

  /** The outermost bracket counts, too. */
  test.each([
    ['lists', '[],'],
    ['objects', '{},'],
  ])('has a million %s at most: they would parse to gigabytes', (_, unit) => {
    expect(read(`{"data":[${unit.repeat(999_999)}1]}`)).toBe('read');
    expect(read(`{"data":[${unit.repeat(1_000_000)}1]}`)).toMatchObject({ kind: 'malformed' });
  });

  test('is an object, or a list of one', () => {
    expect([read('{}'), read('[{}]')]).toEqual(['read', 'read']);
    expect(read('[]')).toMatchObject({ kind: 'malformed' });
  });
});
