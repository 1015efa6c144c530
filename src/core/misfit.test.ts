import { describe, expect, test } from 'bun:test';
import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { misfit, validate } from './misfit.ts';
import { oneOf, optional, wholeNumber } from './schema-builders.ts';

const schema = Type.Object(
  { text: Type.String(), count: optional(wholeNumber(1, 9)), kind: optional(oneOf('a', 'b')) },
  { additionalProperties: false },
);
const compiled = Compile(schema);
const check = (value: unknown) => validate(compiled, schema, value);

describe('a value that fits', () => {
  test('comes back as it is', () => {
    expect(check({ text: 'a', count: 9 })).toEqual({ text: 'a', count: 9 });
  });

  test('may leave fields out, or say null for «not set»', () => {
    expect(check({ text: 'a' })).toEqual({ text: 'a' });
    expect(check({ text: 'a', count: null, kind: null })).toEqual({
      text: 'a',
      count: null,
      kind: null,
    });
  });
});

describe('a refusal', () => {
  test('is one sentence about the first field that does not fit', () => {
    expect(() => check({ text: 'a', count: 10 })).toThrow(
      expect.objectContaining({
        symbol: 'invalid_request_error',
        status: 400,
        message: 'count must be a whole number from 1 to 9, not 10.',
        param: 'count',
      }),
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

  test('begins at the place in the request where the value stands', () => {
    const { message, param } = misfit(schema, { text: 'a', count: 0 }, 'tools[2]');
    expect(message).toBe('tools[2].count must be a whole number from 1 to 9, not 0.');
    expect(param).toBe('tools[2].count');
    expect(misfit(schema, 'a', 'tools[2]').param).toBe('tools[2]');
  });
});
