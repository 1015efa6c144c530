import { describe, expect, test } from 'bun:test';
import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { explain, integer, oneOf, optional, validate, validationError } from './schema.ts';

/** Returns each issue as one line: path and message. */
function messagesOf(schema: object, value: unknown): string[] {
  return explain(schema, value).map(({ path, message }) => `${path} ${message}`.trim());
}

const text = { type: 'string' };
const count = { type: 'integer', minimum: 1, maximum: 9 };

describe('explain for a single value', () => {
  test.each([
    ['a string for a number', count, 'four', 'must be a whole number from 1 to 9, not "four"'],
    ['a fraction', count, 1.5, 'must be a whole number from 1 to 9, not 1.5'],
    ['too large', count, 10, 'must be a whole number from 1 to 9, not 10'],
    [
      'too small',
      { type: 'integer', minimum: 1 },
      0,
      'must be a whole number of at least 1, not 0',
    ],
    ['NaN', { type: 'number' }, Number.NaN, 'must be a number, not NaN'],
    [
      'above the safe integers',
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
    ['a number for a string', text, 4, 'must be a string, not 4'],
    ['null', text, null, 'must be a string, not null'],
    ['an array for a string', text, ['a'], 'must be a string, not a list'],
    ['an object for an array', { type: 'array' }, {}, 'must be a list, not an object'],
    [
      'a string for an array of constants',
      { type: 'array', items: { enum: ['text', 'image'] } },
      'text',
      'must be a list with values from "text", "image", not "text"',
    ],
    [
      'a union with a description of its own',
      { anyOf: [{ const: 'auto' }, { type: 'boolean' }], expected: '"auto", true, or false' },
      'yes',
      'must be "auto", true, or false, not "yes"',
    ],
    ['an array for an object', { type: 'object' }, [], 'must be an object, not a list'],
    ['a string for a boolean', { type: 'boolean' }, 'yes', 'must be true or false, not "yes"'],
    ['another constant', { const: 'on' }, 'off', 'must be "on", not "off"'],
    ['not one of the enum', { enum: ['a', 'b'] }, 'c', 'must be one of "a", "b", not "c"'],
    ['not the only enum value', { enum: ['a'] }, 'c', 'must be "a", not "c"'],
    ['too few items', { type: 'array', minItems: 2 }, [1], 'must have at least 2 items'],
    [
      'too many items',
      { type: 'array', maxItems: 1 },
      [1, 2],
      'has 2 items; at most 1 are allowed',
    ],
  ])('describes what is expected instead of a value: %s', (_, schema, value, message) => {
    expect(messagesOf(schema, value)).toEqual([message]);
  });

  test('describes a pattern by its "expected" text', () => {
    const price = { type: 'string', pattern: '^\\d+$', expected: 'whole dollars in quotes' };
    expect(messagesOf(price, '1,5')).toEqual(['must be whole dollars in quotes, not "1,5"']);
    expect(messagesOf(price, '15')).toEqual([]);
  });

  test('describes a nearly correct string by its "nearly" text', () => {
    const nearly = { pattern: '^\\d+$', expected: 'of two digits' };
    const short = { type: 'string', pattern: '^\\d{2}$', expected: 'a number', nearly };
    expect(messagesOf(short, '123')).toEqual(['must be of two digits, not "123"']);
    expect(messagesOf(short, 'x')).toEqual(['must be a number, not "x"']);
  });

  test('mentions the largest safe integer only if the value exceeds it', () => {
    const open = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER };
    expect(messagesOf(open, -1)).toEqual(['must be a whole number of at least 0, not -1']);
    const within = 'must be a whole number from 0 to 9007199254740991, not 10000000000000000';
    expect(messagesOf(open, 1e16)).toEqual([within]);
    expect(messagesOf({ anyOf: [open, { type: 'null' }] }, 1e16)).toEqual([within]);
    expect(messagesOf({ type: 'integer', minimum: 0 }, 1e16)).toEqual([within]);
    expect(messagesOf({ type: 'string' }, 1e16)).toEqual([
      'must be a string, not 10000000000000000',
    ]);
  });

  test.each([
    ['a'.repeat(58), `"${'a'.repeat(58)}"`],
    ['a'.repeat(59), `"${'a'.repeat(57)}…"`],
    ['a'.repeat(1_000_000), `"${'a'.repeat(57)}…"`],
    ['\n'.repeat(40), `"${'\\n'.repeat(28)}…"`],
    ['\u0001'.repeat(40), `"${'\\u0001'.repeat(9)}…"`],
    ['😀'.repeat(40), `"${'😀'.repeat(28)}…"`],
    [`a${'😀'.repeat(40)}`, `"a${'😀'.repeat(28)}…"`],
  ])(
    'quotes short strings fully and truncates long ones inside the quotes (%#)',
    (value, shown) => {
      expect(messagesOf({ type: 'integer' }, value)).toEqual([
        `must be a whole number, not ${shown}`,
      ]);
    },
  );

  test('shortens long multi-line values to one line', () => {
    const [message = ''] = messagesOf({ type: 'integer' }, `first\nsecond ${'x'.repeat(500)}`);
    expect(message).toMatch(/^must be a whole number, not "first\\nsecond x+…"$/);
    expect(message.length).toBeLessThan(100);
  });
});

describe('the path of an issue', () => {
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

  test('is written with dots and array indexes', () => {
    const value = { messages: [{}, {}, { content: [{ n: 1 }, { n: 'x' }] }] };
    expect(explain(schema, value)[0]?.path).toBe('messages[2].content[1].n');
  });

  test('is empty for the value as a whole', () => {
    const unquoted = 'must be an object';
    const message = 'must be an object, not 4';
    expect(explain(schema, 4)).toEqual([{ path: '', message, unquoted }]);
  });

  test('is reported for every issue, in the order of the value', () => {
    const value = { messages: [{ content: [{ n: 0 }, { n: 5 }, { n: 99 }] }, 'hi'] };
    expect(explain(schema, value).map(({ path }) => path)).toEqual([
      'messages[0].content[0].n',
      'messages[0].content[2].n',
      'messages[1]',
    ]);
  });
});

describe('explain for the fields of an object', () => {
  const closed = {
    type: 'object',
    properties: { model: text, max_tokens: count },
    required: ['model'],
    additionalProperties: false,
  };

  test('names a missing field and its type', () => {
    expect(messagesOf(closed, {})).toEqual(['model is required (a string)']);
  });

  test('treats undefined fields as missing', () => {
    expect(messagesOf(closed, { model: undefined })).toEqual(['model is required (a string)']);
    expect(messagesOf(closed, { model: 'a', max_tokens: undefined })).toEqual([]);
  });

  test('suggests the closest known field for an unknown one', () => {
    expect(messagesOf(closed, { model: 'a', max_token: 5 })).toEqual([
      'max_token is not a known field; did you mean "max_tokens"?',
    ]);
    expect(messagesOf(closed, { model: 'a', zzz: 5 })).toEqual(['zzz is not a known field']);
  });

  test('suggests the nested path for a field written one level too high', () => {
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

  test('reports inherited property names such as constructor as unknown fields', () => {
    const value = JSON.parse('{"model":"a","constructor":1,"__proto__":2}');
    expect(explain(closed, value).map(({ path }) => path)).toEqual(['constructor', '__proto__']);
  });

  test('accepts extra fields of open objects and validates them against patternProperties', () => {
    expect(
      messagesOf({ ...closed, additionalProperties: undefined }, { model: 'a', x: 1 }),
    ).toEqual([]);
    const ruled = { type: 'object', patternProperties: { '^.*$': text } };
    expect(messagesOf(ruled, { a: 'b', c: 4 })).toEqual(['c must be a string, not 4']);
    const rest = { type: 'object', additionalProperties: text };
    expect(messagesOf(rest, { a: 'b', c: 4 })).toEqual(['c must be a string, not 4']);
  });
});

describe('explain for a union', () => {
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

  test('lists all types if none matches', () => {
    expect(messagesOf(content, 4)).toEqual(['must be a string or a list, not 4']);
  });

  test('explains the branch whose tag matches', () => {
    expect(messagesOf(content, [{ type: 'image_url' }])).toEqual([
      '[0].url is required (a string)',
    ]);
  });

  test('lists the tags if the tag is wrong or missing', () => {
    expect(messagesOf(content, [{ type: 'photo' }])).toEqual([
      '[0].type must be one of "text", "image_url", not "photo"',
    ]);
    expect(messagesOf(content, [{}])).toEqual([
      '[0].type is required and must be one of "text", "image_url"',
    ]);
  });

  test('explains the branch with the fewest issues if there is no tag', () => {
    const one = { type: 'object', properties: { a: text, b: text }, required: ['a', 'b'] };
    const other = { type: 'object', properties: { c: text }, required: ['c'] };
    expect(messagesOf({ anyOf: [one, other] }, {})).toEqual(['c is required (a string)']);
    expect(messagesOf({ anyOf: [one, other] }, { c: 'x' })).toEqual([]);
  });

  test('prefers the branch whose constant matches over one with fewer issues', () => {
    const named = {
      type: 'object',
      properties: { type: { const: 'function' }, a: text, b: text },
      required: ['type', 'a', 'b'],
    };
    const other = { type: 'object', properties: { type: { type: 'string', pattern: '^web' } } };
    const schema = { anyOf: [named, other] };
    expect(messagesOf(schema, { type: 'function' })).toEqual([
      'a is required (a string)',
      'b is required (a string)',
    ]);
    expect(messagesOf(schema, { type: 'web' })).toEqual([]);
  });

  test('does not mention null', () => {
    const schema = { anyOf: [count, { type: 'null' }] };
    expect(messagesOf(schema, 'x')).toEqual(['must be a whole number from 1 to 9, not "x"']);
    expect(messagesOf(schema, null)).toEqual([]);
  });

  test('lists constants', () => {
    const schema = { anyOf: [{ const: 'auto' }, { type: 'boolean' }] };
    expect(messagesOf(schema, 'x')).toEqual(['must be "auto" or true or false, not "x"']);
  });
});

describe('explain for hidden values', () => {
  const hidden = { type: 'string', minLength: 20, expected: 'a long text', hidden: true };
  const provider = {
    type: 'object',
    properties: { api_key: { anyOf: [hidden, { type: 'null' }] } },
  };
  const providers = { type: 'object', patternProperties: { '^.*$': provider } };

  test.each([
    ['in the right place', { one: { api_key: 'hunter2' } }, 'one.api_key must be a long text'],
    ['as another type', { one: { api_key: 1234 } }, 'one.api_key must be a long text'],
    ['one level too high', { one: 'hunter2' }, 'one must be an object'],
    ['two levels too high', 'hunter2', 'must be an object'],
  ])('does not quote a credential %s', (_, value, message) => {
    expect(messagesOf(providers, value)).toEqual([message]);
  });
});

test('explain reports at most 100 issues', () => {
  const list = { type: 'array', items: count };
  expect(messagesOf(list, Array(500_000).fill('x'))).toHaveLength(100);
  const closed = { type: 'object', properties: { list }, additionalProperties: false };
  const names = Array.from({ length: 500_000 }, (_, number): [string, number] => [`n${number}`, 1]);
  expect(messagesOf(closed, Object.fromEntries(names))).toHaveLength(100);
});

const schema = Type.Object(
  { text: Type.String(), count: optional(integer(1, 9)), kind: optional(oneOf('a', 'b')) },
  { additionalProperties: false },
);
const compiled = Compile(schema);
const check = (value: unknown) => validate(compiled, schema, value);

describe('validate with a valid value', () => {
  test('returns the value unchanged', () => {
    expect(check({ text: 'a', count: 9 })).toEqual({ text: 'a', count: 9 });
  });

  test('accepts optional fields that are absent or null', () => {
    expect(check({ text: 'a' })).toEqual({ text: 'a' });
    expect(check({ text: 'a', count: null, kind: null })).toEqual({
      text: 'a',
      count: null,
      kind: null,
    });
  });
});

describe('validationError', () => {
  test('is one sentence about the first invalid field', () => {
    expect(() => check({ text: 'a', count: 10 })).toThrow(
      expect.objectContaining({
        symbol: 'invalid_request_error',
        status: 400,
        message: 'count must be a whole number from 1 to 9, not 10.',
        param: 'count',
      }),
    );
  });

  test('reports a misspelled field before a missing one', () => {
    const message = 'txet is not a known field; did you mean "text"?';
    expect(() => check({ txet: 'a' })).toThrow(expect.objectContaining({ message }));
  });

  test('names no field if the value as a whole is invalid', () => {
    const expected = { message: 'The request must be an object, not a list.', param: null };
    expect(() => check([])).toThrow(expect.objectContaining(expected));
  });

  test("starts the path at the value's position in the request", () => {
    const { message, param } = validationError(schema, { text: 'a', count: 0 }, 'tools[2]');
    expect(message).toBe('tools[2].count must be a whole number from 1 to 9, not 0.');
    expect(param).toBe('tools[2].count');
    expect(validationError(schema, 'a', 'tools[2]').param).toBe('tools[2]');
  });
});
