import { describe, expect, test } from 'bun:test';
import { fc } from '../../tests/support/random.ts';
import { NumberRanges } from './number-ranges.ts';

describe('NumberRanges', () => {
  test('joins numbers that follow each other', () => {
    const numbers = new NumberRanges();
    const texts = [0, 1, 4, 3, 9, 2, 2].map((number) => {
      numbers.add(number);
      return numbers.toString();
    });
    expect(texts).toEqual(['0', '0-1', '0-1,4', '0-1,3-4', '0-1,3-4,9', '0-4,9', '0-4,9']);
    expect(numbers.size).toBe(6);
  });

  test('has the numbers that were added, in any order, and keeps them as text', () => {
    const small = fc.nat({ max: 30 });
    fc.assert(
      fc.property(fc.array(small), fc.array(small), (before, after) => {
        const first = new NumberRanges();
        for (const number of before) first.add(number);
        const numbers = NumberRanges.parse(first.toString());
        for (const number of after) numbers.add(number);
        const expected = new Set([...before, ...after]);
        expect(numbers.size).toBe(expected.size);
        for (let number = 0; number <= 31; number += 1)
          expect(numbers.has(number)).toBe(expected.has(number));
      }),
    );
  });

  test('rejects a text that has other characters', () => {
    expect(() => NumberRanges.parse('0-x')).toThrow("0-x isn't a range.");
  });
});
