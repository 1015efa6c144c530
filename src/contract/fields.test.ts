import { describe, expect, test } from 'bun:test';
import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { validate } from '../core/schema.ts';
import { lineField } from './fields.ts';

const schema = Type.Object({ text: lineField(1, 5) });
const compiled = Compile(schema);
const check = (value: unknown) => validate(compiled, schema, value);

describe('lineField', () => {
  const rejectedCodes = '0000 001f 007f 009f 2028 2029 202a 202e 2066 2069 d800 dbff dc00 dfff';
  test.each(rejectedCodes.split(' '))('rejects U+%s', (code) => {
    const text = `a${String.fromCharCode(Number.parseInt(code, 16))}`;
    expect(() => check({ text })).toThrow('text must be 1 to 5 characters');
  });

  test.each(['0020', '007e', '00a0', '2027', '202f', '2065', '206a', 'd7ff', 'e000'])(
    'accepts U+%s, next to the rejected ranges',
    (code) => {
      const text = `a${String.fromCharCode(Number.parseInt(code, 16))}`;
      expect(check({ text })).toEqual({ text });
    },
  );

  test.each(['', ' ', '     ', '\u00a0', '\u3000\ufeff', '\u200b', '\u00ad\u2060'])(
    'rejects %j, which has no visible character',
    (text) => {
      expect(() => check({ text })).toThrow('text must be 1 to 5 characters, not only spaces,');
    },
  );

  test('accepts an empty or blank string if the minimum length is 0', () => {
    const note = Type.Object({ text: lineField(0, 5) });
    for (const text of ['', '  '])
      expect(validate(Compile(note), note, { text })).toEqual({ text });
  });

  test('counts an emoji as one character', () => {
    expect(check({ text: '😀😀😀😀😀' }).text).toHaveLength(10);
    expect(() => check({ text: '😀😀😀😀😀😀' })).toThrow('text must be');
  });

  test('counts combining characters, so stacked ones cannot exceed the maximum', () => {
    expect(() => check({ text: `a${'\u0301'.repeat(10_000)}` })).toThrow('text must be');
  });
});
