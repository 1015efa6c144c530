import { describe, expect, test } from 'bun:test';
import { makePrompt, makeTarget } from '../../../../tests/support/prompts.ts';
import type { Tool } from '../../../core/prompt.ts';
import { inputSchema } from './json-schema.ts';
import { writeMessages } from './request.ts';

test.each(['anyOf', 'oneOf', 'allOf'])('%s at the root of a tool loses no property', (union) => {
  const of = (name: string) => ({ type: 'object', properties: { [name]: { type: 'string' } } });
  expect(inputSchema({ [union]: [of('a'), of('b')], ...of('c') })).toEqual({
    type: 'object',
    properties: { a: { type: 'string' }, b: { type: 'string' }, c: { type: 'string' } },
  });
});

test('a tool without a schema takes an object', () => {
  expect(inputSchema(null)).toEqual({ type: 'object' });
  expect(inputSchema({ properties: {} })).toEqual({ type: 'object', properties: {} });
});

interface Written {
  readonly strict?: boolean;
  readonly input_schema: object;
}

function write(tools: readonly Tool[], quirks = {}) {
  const { body, dropped } = writeMessages(makePrompt({ tools }), makeTarget({ quirks }));
  return { tools: JSON.parse(String(body)).tools as Written[], dropped };
}

const strictOf = (tools: readonly Tool[], quirks = {}) => {
  const written = write(tools, quirks);
  return { strict: written.tools.map(({ strict }) => strict), dropped: written.dropped };
};

/** A strict tool with these properties, all of which it needs unless told otherwise. */
const tool = (properties: object, required = Object.keys(properties)): Tool => ({
  name: 'look',
  strict: true,
  parameters: { type: 'object', properties, required },
});
const text = { type: 'string' };
const texts = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`p${at}`, text]));
const several = (count: number, one: Tool) => Array.from({ length: count }, () => one);

describe('a tool', () => {
  test('that is strict has a schema without the keys that are refused there', () => {
    const { tools } = write([tool({ count: { type: 'integer', minimum: 1 } })]);
    expect(tools).toMatchObject([{ strict: true }]);
    expect(tools[0]?.input_schema).toEqual({
      type: 'object',
      properties: { count: { type: 'integer' } },
      required: ['count'],
      additionalProperties: false,
    });
  });

  test('that is not strict keeps its whole schema', () => {
    const { parameters } = tool({ count: { type: 'integer', minimum: 1 } });
    expect(write([{ name: 'look', parameters }]).tools[0]?.input_schema).toEqual({ ...parameters });
  });

  const inner = { type: 'array', items: { type: 'object', properties: texts(24) } };
  const choice = { type: ['string', 'null'] };
  const choices = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`p${at}`, choice]));

  test.each<[string, readonly Tool[]]>([
    ['20 of them', several(20, tool({}))],
    ['24 parameters that may be left out', [tool(texts(24), [])]],
    ['24 of those inside of another', [tool({ inner })]],
    ['16 parameters of several types', [tool(choices(16))]],
  ])('is strict among %s', (_, tools) => {
    expect(strictOf(tools)).toEqual({ strict: tools.map(() => true), dropped: [] });
  });

  test.each<[string, readonly Tool[]]>([
    ['21 of them', several(21, tool({}))],
    ['25 parameters that may be left out', [tool(texts(24), []), tool({ a: text }, [])]],
    ['25 of those inside of another', [tool({ inner, a: text }, ['inner'])]],
    ['17 parameters of several types', [tool(choices(17))]],
  ])('is not strict among %s, and the client is told', (_, tools) => {
    expect(strictOf(tools)).toEqual({ strict: tools.map(() => undefined), dropped: ['strict'] });
  });

  test('is not strict for a model that knows nothing of it', () => {
    const quirks = { json_schema: 'instruct' as const };
    expect(strictOf([tool({})], quirks)).toEqual({ strict: [undefined], dropped: ['strict'] });
  });
});
