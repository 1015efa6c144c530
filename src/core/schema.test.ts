import { describe, expect, test } from 'bun:test';
import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { explain, integer, oneOf, optional, validate, validationError } from './schema.ts';

/** As people read it: path and message in one line each. */
function told(schema: object, value: unknown): string[] {
  return explain(schema, value).map(({ path, message }) => `${path} ${message}`.trim());
}

const text = { type: 'string' };
const count = { type: 'integer', minimum: 1, maximum: 9 };

describe('one value that does not fit', () => {
  test.each([
    ['a text for a number', count, 'four', 'must be a whole number from 1 to 9, not "four"'],
    ['a fraction', count, 1.5, 'must be a whole number from 1 to 9, not 1.5'],
    ['too large', count, 10, 'must be a whole number from 1 to 9, not 10'],
    [
      'too small',
      { type: 'integer', minimum: 1 },
      0,
      'must be a whole number of at least 1, not 0',
    ],
    ['no number at all', { type: 'number' }, Number.NaN, 'must be a number, not NaN'],
    [
      'beyond exactness',
      { type: 'integer' },
      2 ** 53,
      'must be a whole number of at most 9007199254740991, not 9007199254740992',
    ],
    [
      'too long',
      { type: 'string', maxLength: 3 },
      'four',
      'must be a string of at most 3 characters, not "four"',
    ],
    [
      'empty',
      { type: 'string', minLength: 1 },
      '',
      'must be a string of at least 1 character, not ""',
    ],
    ['a number for a text', text, 4, 'must be a string, not 4'],
    ['nothing', text, null, 'must be a string, not null'],
    ['a list for a text', text, ['a'], 'must be a string, not a list'],
    ['an object for a list', { type: 'array' }, {}, 'must be a list, not an object'],
    [
      'a text for a list of words',
      { type: 'array', items: { enum: ['text', 'image'] } },
      'text',
      'must be a list of "text", "image", not "text"',
    ],
    [
      'what no branch of a described choice is',
      { anyOf: [{ const: 'auto' }, { type: 'boolean' }], expected: '"auto", true or false' },
      'yes',
      'must be "auto", true or false, not "yes"',
    ],
    ['a list for an object', { type: 'object' }, [], 'must be an object, not a list'],
    ['a word for a truth value', { type: 'boolean' }, 'yes', 'must be true or false, not "yes"'],
    ['another constant', { const: 'on' }, 'off', 'must be "on", not "off"'],
    ['another choice', { enum: ['a', 'b'] }, 'c', 'must be one of "a", "b", not "c"'],
    ['the only choice', { enum: ['a'] }, 'c', 'must be "a", not "c"'],
    ['too few', { type: 'array', minItems: 2 }, [1], 'must have at least 2 item(s)'],
    ['too many', { type: 'array', maxItems: 1 }, [1, 2], 'has 2 items; at most 1 are allowed'],
  ])('%s', (_, schema, value, message) => {
    expect(told(schema, value)).toEqual([message]);
  });

  test('a pattern is told in words', () => {
    const price = { type: 'string', pattern: '^\\d+$', expected: 'whole dollars in quotes' };
    expect(told(price, '1,5')).toEqual(['must be whole dollars in quotes, not "1,5"']);
    expect(told(price, '15')).toEqual([]);
  });

  test('a text that is nearly right is told what it lacks', () => {
    const nearly = { pattern: '^\\d+$', expected: 'of two digits' };
    const short = { type: 'string', pattern: '^\\d{2}$', expected: 'a number', nearly };
    expect(told(short, '123')).toEqual(['must be of two digits, not "123"']);
    expect(told(short, 'x')).toEqual(['must be a number, not "x"']);
  });

  test('the largest exact number is mentioned only to those who exceed it', () => {
    const open = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER };
    expect(told(open, -1)).toEqual(['must be a whole number of at least 0, not -1']);
    const within = 'must be a whole number from 0 to 9007199254740991, not 10000000000000000';
    expect(told(open, 1e16)).toEqual([within]);
    expect(told({ anyOf: [open, { type: 'null' }] }, 1e16)).toEqual([within]);
    expect(told({ type: 'integer', minimum: 0 }, 1e16)).toEqual([within]);
    expect(told({ type: 'string' }, 1e16)).toEqual(['must be a string, not 10000000000000000']);
  });

  test.each([
    ['a'.repeat(58), `"${'a'.repeat(58)}"`],
    ['a'.repeat(59), `"${'a'.repeat(57)}…"`],
    ['a'.repeat(1_000_000), `"${'a'.repeat(57)}…"`],
    ['\n'.repeat(40), `"${'\\n'.repeat(28)}…"`],
    ['\u0001'.repeat(40), `"${'\\u0001'.repeat(9)}…"`],
    ['😀'.repeat(40), `"${'😀'.repeat(28)}…"`],
    [`a${'😀'.repeat(40)}`, `"a${'😀'.repeat(28)}…"`],
  ])('a text is quoted whole or up to an ellipsis inside its quotes (%#)', (value, shown) => {
    expect(told({ type: 'integer' }, value)).toEqual([`must be a whole number, not ${shown}`]);
  });

  test('a long or many-lined value is shown short and on one line', () => {
    const [message = ''] = told({ type: 'integer' }, `first\nsecond ${'x'.repeat(500)}`);
    expect(message).toMatch(/^must be a whole number, not "first\\nsecond x+…"$/);
    expect(message.length).toBeLessThan(100);
  });
});

describe('a path is spelled as a person would write it', () => {
  const schema = {
    type: 'object',
    properties: {
      messages: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            content: { type: 'array', items: { type: 'object', properties: { n: count } } },
          },
        },
      },
    },
  };

  test('through lists and objects', () => {
    const value = { messages: [{}, {}, { content: [{ n: 1 }, { n: 'x' }] }] };
    expect(explain(schema, value)[0]?.path).toBe('messages[2].content[1].n');
  });

  test('as nothing for the whole', () => {
    const unquoted = 'must be an object';
    const message = 'must be an object, not 4';
    expect(explain(schema, 4)).toEqual([{ path: '', message, unquoted }]);
  });

  test('for every problem at once, in the order of the value', () => {
    const value = { messages: [{ content: [{ n: 0 }, { n: 5 }, { n: 99 }] }, 'hi'] };
    expect(explain(schema, value).map(({ path }) => path)).toEqual([
      'messages[0].content[0].n',
      'messages[0].content[2].n',
      'messages[1]',
    ]);
  });
});

describe('fields of an object', () => {
  const closed = {
    type: 'object',
    properties: { model: text, max_tokens: count },
    required: ['model'],
    additionalProperties: false,
  };

  test('a missing one is named with what it wants', () => {
    expect(told(closed, {})).toEqual(['model is required (a string)']);
  });

  test('one that is present without a value is as missing', () => {
    expect(told(closed, { model: undefined })).toEqual(['model is required (a string)']);
    expect(told(closed, { model: 'a', max_tokens: undefined })).toEqual([]);
  });

  test('an unknown one is told the nearest known', () => {
    expect(told(closed, { model: 'a', max_token: 5 })).toEqual([
      'max_token is not a known field; did you mean "max_tokens"?',
    ]);
    expect(told(closed, { model: 'a', zzz: 5 })).toEqual(['zzz is not a known field']);
  });

  test('one that was written one level too high is told its place', () => {
    const server = { type: 'object', properties: { port: { type: 'integer' } } };
    const closed = {
      type: 'object',
      properties: { server, ports: {} },
      additionalProperties: false,
    };
    expect(explain(closed, { port: 80 })).toEqual([
      { path: 'port', message: 'is not a known field; did you mean "server.port"?' },
    ]);
    const outer = { type: 'object', properties: { all: closed } };
    expect(explain(outer, { all: { port: 80 } })[0]?.message).toEndWith('"all.server.port"?');
  });

  test('names that every object inherits are not mistaken for known fields', () => {
    const value = JSON.parse('{"model":"a","constructor":1,"__proto__":2}');
    expect(explain(closed, value).map(({ path }) => path)).toEqual(['constructor', '__proto__']);
  });

  test('an open object lets others pass, a ruled one checks them', () => {
    expect(told({ ...closed, additionalProperties: undefined }, { model: 'a', x: 1 })).toEqual([]);
    const ruled = { type: 'object', patternProperties: { '^.*$': text } };
    expect(told(ruled, { a: 'b', c: 4 })).toEqual(['c must be a string, not 4']);
    const rest = { type: 'object', additionalProperties: text };
    expect(told(rest, { a: 'b', c: 4 })).toEqual(['c must be a string, not 4']);
  });
});

describe('a choice of shapes', () => {
  const part = (type: string, field: string) => ({
    type: 'object',
    properties: { type: { const: type }, [field]: text },
    required: ['type', field],
  });
  const content = {
    anyOf: [
      text,
      { type: 'array', items: { anyOf: [part('text', 'text'), part('image_url', 'url')] } },
    ],
  };

  test('is told whole when nothing fits', () => {
    expect(told(content, 4)).toEqual(['must be a string or a list, not 4']);
  });

  test('is explained by the branch whose tag was meant', () => {
    expect(told(content, [{ type: 'image_url' }])).toEqual(['[0].url is required (a string)']);
  });

  test('names the tags when the tag is wrong or missing', () => {
    expect(told(content, [{ type: 'picture' }])).toEqual([
      '[0].type must be one of "text", "image_url", not "picture"',
    ]);
    expect(told(content, [{}])).toEqual([
      '[0].type is required and must be one of "text", "image_url"',
    ]);
  });

  test('takes the nearest miss when no tag tells them apart', () => {
    const one = { type: 'object', properties: { a: text, b: text }, required: ['a', 'b'] };
    const other = { type: 'object', properties: { c: text }, required: ['c'] };
    expect(told({ anyOf: [one, other] }, {})).toEqual(['c is required (a string)']);
    expect(told({ anyOf: [one, other] }, { c: 'x' })).toEqual([]);
  });

  test('takes the branch that is named before a nearer miss', () => {
    const named = {
      type: 'object',
      properties: { type: { const: 'function' }, a: text, b: text },
      required: ['type', 'a', 'b'],
    };
    const other = { type: 'object', properties: { type: { type: 'string', pattern: '^web' } } };
    const schema = { anyOf: [named, other] };
    expect(told(schema, { type: 'function' })).toEqual([
      'a is required (a string)',
      'b is required (a string)',
    ]);
    expect(told(schema, { type: 'web' })).toEqual([]);
  });

  test('leaves «or null» unsaid', () => {
    const schema = { anyOf: [count, { type: 'null' }] };
    expect(told(schema, 'x')).toEqual(['must be a whole number from 1 to 9, not "x"']);
    expect(told(schema, null)).toEqual([]);
  });

  test('of constants is told as a list', () => {
    const schema = { anyOf: [{ const: 'auto' }, { type: 'boolean' }] };
    expect(told(schema, 'x')).toEqual(['must be "auto" or true or false, not "x"']);
  });
});

describe('a value that may be a credential is never repeated', () => {
  const hidden = { type: 'string', minLength: 20, expected: 'a long text', hidden: true };
  const provider = {
    type: 'object',
    properties: { api_key: { anyOf: [hidden, { type: 'null' }] } },
  };
  const providers = { type: 'object', patternProperties: { '^.*$': provider } };

  test.each([
    ['in its place', { one: { api_key: 'hunter2' } }, 'one.api_key must be a long text'],
    ['as another type', { one: { api_key: 1234 } }, 'one.api_key must be a long text'],
    ['one level too high', { one: 'hunter2' }, 'one must be an object'],
    ['two levels too high', 'hunter2', 'must be an object'],
  ])('%s', (_, value, message) => {
    expect(told(providers, value)).toEqual([message]);
  });
});

test('half a million mistakes are not all told', () => {
  const list = { type: 'array', items: count };
  expect(told(list, Array(500_000).fill('x'))).toHaveLength(100);
  const closed = { type: 'object', properties: { list }, additionalProperties: false };
  const names = Array.from({ length: 500_000 }, (_, number): [string, number] => [`n${number}`, 1]);
  expect(told(closed, Object.fromEntries(names))).toHaveLength(100);
});

const schema = Type.Object(
  { text: Type.String(), count: optional(integer(1, 9)), kind: optional(oneOf('a', 'b')) },
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
    const { message, param } = validationError(schema, { text: 'a', count: 0 }, 'tools[2]');
    expect(message).toBe('tools[2].count must be a whole number from 1 to 9, not 0.');
    expect(param).toBe('tools[2].count');
    expect(validationError(schema, 'a', 'tools[2]').param).toBe('tools[2]');
  });
});
