import { describe, expect, test } from 'bun:test';
import { Check } from 'typebox/schema';
import { sampleSchema } from './schema-sample.ts';

const address = {
  type: 'object',
  properties: { street: { type: 'string', minLength: 20 }, zip: { type: 'string', maxLength: 3 } },
  required: ['street', 'zip'],
  additionalProperties: false,
};

/** Samples are validated by code that is independent of the sampler. */
const schemas: Record<string, object> = {
  'nested objects and arrays': {
    type: 'object',
    properties: {
      name: { type: 'string' },
      addresses: { type: 'array', items: address, minItems: 3 },
      none: { type: 'array', items: address, maxItems: 0 },
      note: { type: ['string', 'null'] },
    },
    required: ['name', 'addresses', 'none', 'note'],
    additionalProperties: false,
  },
  'enum and const': {
    type: 'object',
    properties: { kind: { const: 'cat' }, color: { enum: ['red', 'blue'] }, nil: { const: null } },
    required: ['kind', 'colour', 'nil'],
  },
  'numbers in bounds': {
    type: 'object',
    properties: {
      low: { type: 'integer', minimum: 5.5, maximum: 6 },
      high: { type: 'number', maximum: -3 },
      open: { type: 'number', exclusiveMinimum: 2, exclusiveMaximum: 2.5 },
      count: { type: 'integer', exclusiveMinimum: 4, exclusiveMaximum: 6 },
      dozen: { type: 'integer', multipleOf: 12, minimum: 13 },
      yes: { type: 'boolean' },
    },
    required: ['low', 'high', 'open', 'count', 'dozen', 'yes'],
  },
  formats: {
    type: 'object',
    properties: {
      day: { type: 'string', format: 'date' },
      at: { type: 'string', format: 'date-time' },
      mail: { type: 'string', format: 'email' },
      link: { type: 'string', format: 'uri' },
      id: { type: 'string', format: 'uuid' },
    },
    required: ['day', 'at', 'mail', 'link', 'id'],
  },
  'references into $defs, alone and inside allOf': {
    type: 'object',
    properties: {
      home: { $ref: '#/$defs/Address' },
      work: { allOf: [{ $ref: '#/$defs/Address' }] },
    },
    required: ['home', 'work'],
    $defs: { Address: address },
  },
  'a recursive list that ends in null': {
    $ref: '#/$defs/Node',
    $defs: {
      Node: {
        type: 'object',
        properties: {
          value: { type: 'integer' },
          next: { anyOf: [{ $ref: '#/$defs/Node' }, { type: 'null' }] },
        },
        required: ['value', 'next'],
        additionalProperties: false,
      },
    },
  },
  'a recursive tree that ends in empty arrays': {
    type: 'object',
    properties: { children: { type: 'array', items: { $ref: '#' } } },
    required: ['children'],
  },
  tuples: {
    type: 'array',
    prefixItems: [{ type: 'integer' }, { type: 'boolean' }],
    items: { type: 'string' },
    minItems: 3,
  },
};

describe('sampleSchema satisfies a schema with', () => {
  for (const [name, schema] of Object.entries(schemas)) {
    test(name, () => {
      const sample = sampleSchema(schema);
      expect(sample).toEqual(sampleSchema(schema));
      expect({ sample, fits: Check(schema, sample) }).toEqual({ sample, fits: true });
    });
  }
});

test('the validator of these tests rejects invalid values', () => {
  const wrong = { street: 'x', zip: 'y' };
  expect(Check(address, wrong)).toBe(false);
  expect(Check({ type: 'string', format: 'email' }, 'no mail')).toBe(false);
});

test('sampleSchema uses the first branch of anyOf', () => {
  expect(sampleSchema({ anyOf: [{ type: 'boolean' }, { type: 'string' }] })).toBe(true);
});

test('sampleSchema includes optional properties only if none is required', () => {
  const properties = { a: { type: 'boolean' }, b: { type: 'boolean' } };
  expect(sampleSchema({ type: 'object', properties })).toEqual({ a: true, b: true });
  expect(sampleSchema({ type: 'object', properties, required: ['b'] })).toEqual({ b: true });
});

test('sampleSchema treats __proto__ like any other property', () => {
  const properties = JSON.parse('{"__proto__": {"type": "boolean"}}');
  const sample = sampleSchema({ type: 'object', properties, required: ['__proto__'] });
  expect(JSON.stringify(sample)).toBe('{"__proto__":true}');
});

test('sampleSchema returns a small value for recursive and invalid schemas', () => {
  const self = { $ref: '#' };
  const wide = {
    type: 'object',
    properties: Object.fromEntries([...'abcdefghij'].map((name) => [name, self])),
    required: [...'abcdefghij'],
  };
  const names = Array.from({ length: 20_000 }, (_, index) => `name-${index}`);
  const wider = {
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name, self])),
    required: names,
  };
  const hostile: unknown[] = [
    wide,
    wider,
    self,
    { type: 'array', minItems: 1e9, items: { type: 'array', minItems: 1e9, items: self } },
    { type: 'string', minLength: 1e12 },
    { $ref: '#/a/b/c' },
    { $ref: 'https://example.com/elsewhere' },
    { type: 'number', minimum: 9, maximum: 1, multipleOf: -2 },
    { type: 7, enum: [], anyOf: [], allOf: [3], required: 'all', properties: [] },
    null,
    true,
    'text',
  ];
  for (const schema of hostile) {
    expect(JSON.stringify(sampleSchema(schema)).length).toBeLessThan(200_000);
  }
});
