import { describe, expect, test } from 'bun:test';
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { line, optional, validate, wholeNumber } from './manage-input.ts';

const schema = Type.Object(
  { text: line(1, 5), count: optional(wholeNumber(1, 9)) },
  { additionalProperties: false },
);
const compiled = Compile(schema);
const check = (value: unknown) => validate(compiled, schema, value);

describe('text on one line', () => {
  const refused = '0000 001f 007f 009f 2028 2029 202a 202e 2066 2069 d800 dbff dc00 dfff';
  test.each(refused.split(' '))('has no U+%s', (code) => {
    const text = `a${String.fromCharCode(Number.parseInt(code, 16))}`;
    expect(() => check({ text })).toThrow('text must be 1 to 5 characters');
  });

  test.each(['0020', '007e', '00a0', '2027', '202f', '2065', '206a', 'd7ff', 'e000'])(
    'may have U+%s, right beside those',
    (code) => {
      const text = String.fromCharCode(Number.parseInt(code, 16));
      expect(check({ text })).toEqual({ text });
    },
  );

  test('counts an emoji as one character', () => {
    expect(check({ text: '😀😀😀😀😀' }).text).toHaveLength(10);
    expect(() => check({ text: '😀😀😀😀😀😀' })).toThrow('text must be');
  });

  test('is bounded even where characters stack up into one', () => {
    expect(() => check({ text: `a${'\u0301'.repeat(10_000)}` })).toThrow('text must be');
  });
});

describe('a refusal', () => {
  test('is one sentence about the first field that does not fit', () => {
    const refusal = { message: 'count must be a whole number from 1 to 9, not 10.' };
    expect(() => check({ text: 'a', count: 10 })).toThrow(expect.objectContaining(refusal));
    expect(() => check({ text: 'a', count: 10 })).toThrow(
      expect.objectContaining({ symbol: 'invalid_request_error', status: 400, param: 'count' }),
    );
  });

  test('prefers a misspelt field to the missing one', () => {
    const message = 'txet is not a known field; did you mean "text"?';
    expect(() => check({ txet: 'a' })).toThrow(expect.objectContaining({ message }));
  });

  test('names no field when the whole is wrong', () => {
    const refusal = { message: 'The request must be an object, not a list.', param: null };
    expect(() => check([])).toThrow(expect.objectContaining(refusal));
  });
});
