import { describe, expect, test } from 'bun:test';
import { makePrompt } from '../../../../tests/support/prompts.ts';
import { functionSchema, withCurrentSchemas } from './tool-schema.ts';

const number = { type: 'number' };
const tool = (parameters: object) => ({ name: 'look', parameters: { ...parameters } });
const of = (property: object) => ({ type: 'object', properties: { at: property } });

describe('withCurrentSchemas', () => {
  test.each([
    ['a tuple', { items: [number, number] }, { prefixItems: [number, number] }],
    [
      'a tuple with additional items',
      { items: [number], additionalItems: { $ref: '#/properties/at/items/0' } },
      { prefixItems: [number], items: { $ref: '#/properties/at/prefixItems/0' } },
    ],
    ['a tuple inside a list', { items: { items: [number] } }, { items: { prefixItems: [number] } }],
    ['an exclusive minimum', { minimum: 0, exclusiveMinimum: true }, { exclusiveMinimum: 0 }],
    ['an inclusive maximum', { maximum: 9, exclusiveMaximum: false }, { maximum: 9 }],
    ['a flag without a bound', { exclusiveMaximum: true }, {}],
    ['a list of anything', { type: 'array' }, { type: 'array', items: {} }],
    [
      'an array in anyOf',
      { anyOf: [{ type: 'array' }] },
      { anyOf: [{ type: 'array', items: {} }] },
    ],
  ])('converts %s', (_, older, newer) => {
    const [converted] = withCurrentSchemas(makePrompt({ tools: [tool(of(older))] })).tools;
    expect(converted?.parameters).toEqual(of(newer));
    const json = { name: 'answer', schema: of(older) };
    expect(withCurrentSchemas(makePrompt({ json })).json?.schema).toEqual(of(newer));
  });

  test('converts schemas under properties of any name', () => {
    const names = ['default', 'enum', 'examples', 'items', 'properties'];
    const given = (list: object) => ({
      ...of({ type: 'object', properties: Object.fromEntries(names.map((name) => [name, list])) }),
      $defs: { const: list, exclusiveMinimum: true },
    });
    const [converted] = withCurrentSchemas(
      makePrompt({ tools: [tool(given({ type: 'array' }))] }),
    ).tools;
    expect(converted?.parameters).toEqual(given({ type: 'array', items: {} }));
  });

  test('does not convert examples and other data', () => {
    const odd = { items: [number], exclusiveMinimum: true, type: 'array' };
    const names = { items: number, exclusiveMinimum: number, type: number };
    const given = makePrompt({
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
])('functionSchema removes only patterns that Python does not support: %s', (pattern) => {
  const list = (item: object) => ({ anyOf: [{ type: 'array', items: item }, { type: 'null' }] });
  const schema = (names: object, extra: object) => ({
    type: 'object',
    properties: { names: list(names), pattern: { type: 'string', ...extra } },
    required: ['pattern'],
  });
  const given = schema(text(pattern), { description: 'What to look for.' });
  const expected = schema({ type: 'string' }, { description: 'What to look for.' });
  expect(functionSchema(given)).toEqual(expected);
});

test.each(['^\\d{4}-\\d{2}$', '^(?!x)(?<=y)a+?$', '\\u00e9', '^[a-z]\\.py$'])(
  'functionSchema keeps patterns that Python supports: %s',
  (pattern) => {
    const schema = { type: 'object', properties: { name: text(pattern) } };
    expect(functionSchema(schema)).toEqual(schema);
  },
);

test.each([null, {}, { type: null }, { type: null, properties: {} }])(
  'functionSchema adds the type object to %j',
  (parameters) => {
    expect(functionSchema(parameters)).toEqual({ type: 'object', properties: {} });
  },
);
