import { describe, expect, test } from 'bun:test';
import { question } from '../../../../tests/support/question.ts';
import { functionSchema, withCurrentSchemas } from './tool-schema.ts';

const number = { type: 'number' };
const tool = (parameters: object) => ({ name: 'look', parameters: { ...parameters } });
const of = (property: object) => ({ type: 'object', properties: { at: property } });

describe('a schema in older words', () => {
  test.each([
    ['a list of places', { items: [number, number] }, { prefixItems: [number, number] }],
    [
      'a list of places and more',
      { items: [number], additionalItems: { $ref: '#/properties/at/items/0' } },
      { prefixItems: [number], items: { $ref: '#/properties/at/prefixItems/0' } },
    ],
    ['a list inside a list', { items: { items: [number] } }, { items: { prefixItems: [number] } }],
    ['a bound above', { minimum: 0, exclusiveMinimum: true }, { exclusiveMinimum: 0 }],
    ['a bound that counts', { maximum: 9, exclusiveMaximum: false }, { maximum: 9 }],
    ['no bound at all', { exclusiveMaximum: true }, {}],
    ['a list of anything', { type: 'array' }, { type: 'array', items: {} }],
    ['one of several', { anyOf: [{ type: 'array' }] }, { anyOf: [{ type: 'array', items: {} }] }],
  ])('%s is said in newer ones', (_, older, newer) => {
    const [told] = withCurrentSchemas(question({ tools: [tool(of(older))] })).tools;
    expect(told?.parameters).toEqual(of(newer));
    const json = { name: 'answer', schema: of(older) };
    expect(withCurrentSchemas(question({ json })).json?.schema).toEqual(of(newer));
  });

  test('is found under properties of any name', () => {
    const names = ['default', 'enum', 'examples', 'items', 'properties'];
    const given = (list: object) => ({
      ...of({ type: 'object', properties: Object.fromEntries(names.map((name) => [name, list])) }),
      $defs: { const: list, exclusiveMinimum: true },
    });
    const [told] = withCurrentSchemas(question({ tools: [tool(given({ type: 'array' }))] })).tools;
    expect(told?.parameters).toEqual(given({ type: 'array', items: {} }));
  });

  test('is not seen in mere examples', () => {
    const odd = { items: [number], exclusiveMinimum: true, type: 'array' };
    const names = { items: number, exclusiveMinimum: number, type: number };
    const given = question({
      tools: [
        tool(of({ enum: [odd], default: odd, const: odd, examples: [odd] })),
        tool({ type: 'object', properties: names }),
        tool(of({ type: 'array', items: number, minItems: 1 })),
        tool(of({ type: 'array', prefixItems: [number] })),
        { name: 'listen', parameters: null },
      ],
    });
    expect(withCurrentSchemas(given)).toBe(given);
  });
});

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
