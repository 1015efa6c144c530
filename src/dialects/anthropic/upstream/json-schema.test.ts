import { describe, expect, test } from 'bun:test';
import { makePrompt, makeTarget } from '../../../../tests/support/prompts.ts';
import type { Tool } from '../../../core/prompt.ts';
import { inputSchema } from './json-schema.ts';
import { writeMessages } from './request.ts';

test.each(['anyOf', 'oneOf', 'allOf'])(
  'inputSchema keeps all properties of %s at the root',
  (union) => {
    const of = (name: string) => ({ type: 'object', properties: { [name]: { type: 'string' } } });
    expect(inputSchema({ [union]: [of('a'), of('b')], ...of('c') })).toEqual({
      type: 'object',
      properties: { a: { type: 'string' }, b: { type: 'string' }, c: { type: 'string' } },
    });
  },
);

test('inputSchema returns an object schema if the tool has none', () => {
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

/** Returns a strict tool with these properties, all required by default. */
const tool = (properties: object, required = Object.keys(properties)): Tool => ({
  name: 'look',
  strict: true,
  parameters: { type: 'object', properties, required },
});
const text = { type: 'string' };
const texts = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, text]));
const repeat = (count: number, tool: Tool) => Array.from({ length: count }, () => tool);

describe('writeMessages for strict tools', () => {
  test('drops unsupported keywords from the schema', () => {
    const { tools } = write([tool({ count: { type: 'integer', minimum: 1 } })]);
    expect(tools).toMatchObject([{ strict: true }]);
    expect(tools[0]?.input_schema).toEqual({
      type: 'object',
      properties: { count: { type: 'integer' } },
      required: ['count'],
      additionalProperties: false,
    });
  });

  test('keeps all keywords of tools that are not strict', () => {
    const { parameters } = tool({ count: { type: 'integer', minimum: 1 } });
    expect(write([{ name: 'look', parameters }]).tools[0]?.input_schema).toEqual({ ...parameters });
  });

  const inner = { type: 'array', items: { type: 'object', properties: texts(24) } };
  const choice = { type: ['string', 'null'] };
  const choices = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, choice]));

  test.each<[string, readonly Tool[]]>([
    ['20 tools', repeat(20, tool({}))],
    ['24 optional parameters', [tool(texts(24), [])]],
    ['24 nested optional parameters', [tool({ inner })]],
    ['16 parameters with several types', [tool(choices(16))]],
  ])('sends %s as strict', (_, tools) => {
    expect(strictOf(tools)).toEqual({ strict: tools.map(() => true), dropped: [] });
  });

  test.each<[string, readonly Tool[]]>([
    ['21 tools', repeat(21, tool({}))],
    ['25 optional parameters', [tool(texts(24), []), tool({ a: text }, [])]],
    ['25 nested optional parameters', [tool({ inner, a: text }, ['inner'])]],
    ['17 parameters with several types', [tool(choices(17))]],
  ])('drops and reports strict for %s', (_, tools) => {
    expect(strictOf(tools)).toEqual({ strict: tools.map(() => undefined), dropped: ['strict'] });
  });

  test('drops and reports strict for models without JSON schemas', () => {
    const quirks = { json_schema: 'instruct' as const };
    expect(strictOf([tool({})], quirks)).toEqual({ strict: [undefined], dropped: ['strict'] });
  });
});
