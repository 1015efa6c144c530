import { expect, test } from 'bun:test';
import { functionSchema } from './function-schema.ts';

const text = (pattern: string) => ({ type: 'string', pattern });

test.each([
  '^(?!__.*__$)[^\\p{Cc}\\p{Cf}]+$',
  '^\\P{L}$',
  '\\u{1F600}',
  '(?<year>\\d{4})',
  '(["\']).*\\k<quote>',
])('a pattern that only JavaScript reads is left out, and nothing else: %s', (pattern) => {
  const list = (item: object) => ({ anyOf: [{ type: 'array', items: item }, { type: 'null' }] });
  const schema = (names: object, more: object) => ({
    type: 'object',
    properties: { names: list(names), pattern: { type: 'string', ...more } },
    required: ['pattern'],
  });
  const given = schema(text(pattern), { description: 'What to look for.' });
  const taken = schema({ type: 'string' }, { description: 'What to look for.' });
  expect(functionSchema(given)).toEqual(taken);
});

test.each(['^\\d{4}-\\d{2}$', '^(?!x)(?<=y)a+?$', '\\u00e9', '^[a-z]\\.py$'])(
  'a pattern that Python reads as well stays: %s',
  (pattern) => {
    const schema = { type: 'object', properties: { name: text(pattern) } };
    expect(functionSchema(schema)).toEqual(schema);
  },
);

test.each([null, {}, { type: null }, { type: null, properties: {} }])(
  'parameters of no type are an object: %j',
  (parameters) => {
    expect(functionSchema(parameters)).toEqual({ type: 'object', properties: {} });
  },
);
