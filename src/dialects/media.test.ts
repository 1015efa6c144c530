import { describe, expect, test } from 'bun:test';
import { readVector, toBase64, toNumbers } from './media.ts';

describe('vectors', () => {
  // 0.25 and -1 as little-endian floats: 00 00 80 3e, 00 00 80 bf.
  const packed = 'AACAPgAAgL8=';

  test('convert between numbers and base64', () => {
    expect(toBase64([0.25, -1])).toBe(packed);
    expect(toNumbers(packed)).toEqual([0.25, -1]);
    expect([toBase64(packed), toNumbers([1])]).toEqual([packed, [1]]);
  });

  test.each([[[0.25, -1]], [packed]])('are read from %j', (raw) => {
    expect(readVector(raw)).toEqual(raw);
  });

  // The texts have 3 bytes, 5 bytes, a missing character, and characters that aren't base64.
  const others = [null, {}, [], [1, '2'], [null], ''];
  const texts = ['AACA', 'AACAPgA=', 'AACAPgAAgL8', '!!CAPgAAgL8='];
  test.each([...others, ...texts].map((raw) => [raw]))('are not read from %j', (raw) => {
    expect(readVector(raw)).toBeUndefined();
  });
});
