import { expect, test } from 'bun:test';
import { References } from './references.ts';

const city = { type: 'object', properties: { name: { type: 'string' } } };
const resolve = (schema: Record<string, unknown>) => new References().resolveIn(schema);

test('a schema stands where it is referred to, wherever it was written down', () => {
  const schema = {
    type: 'object',
    properties: {
      from: { $ref: '#/$defs/City' },
      to: { anyOf: [{ $ref: '#/definitions/a~1b' }, { type: 'null' }] },
      via: { type: 'array', items: { $ref: '#/properties/from' } },
    },
    not: { $ref: '#/$defs/City' },
    $defs: { City: city },
    definitions: { 'a/b': city },
  };
  expect(resolve(schema)).toEqual({
    type: 'object',
    properties: {
      from: city,
      to: { anyOf: [city, { type: 'null' }] },
      via: { type: 'array', items: city },
    },
    not: city,
  });
});

test('words beside a reference are about that use of it', () => {
  const from = { $ref: '#/$defs/City', description: 'Where it starts', title: 'From' };
  expect(resolve({ properties: { from }, $defs: { City: { ...city, title: 'City' } } })).toEqual({
    properties: { from: { ...city, title: 'From', description: 'Where it starts' } },
  });
});

test('a schema that refers to itself keeps its references, with nothing beside them', () => {
  const next = { $ref: '#/$defs/Node', description: 'The rest', title: 'Next', examples: [1] };
  const root = (of: object) => ({
    $ref: '#/$defs/Node',
    $defs: { Node: { type: 'object', properties: { next: of } } },
  });
  const bare = { $ref: '#/$defs/Node', description: 'The rest' };
  expect(resolve({ type: 'object', properties: { list: next }, $defs: root(next).$defs })).toEqual({
    type: 'object',
    properties: { list: bare },
    $defs: root(bare).$defs,
  });
});

test.each(['#/$defs/Nobody', '#/__proto__/x', 'https://example.com/city.json', '#', '#/type'])(
  'the reference %s stays, because nothing is there',
  (reference) => {
    const schema = { type: 'object', properties: { city: { $ref: reference } } };
    expect(resolve(schema)).toEqual(schema);
  },
);

test('what only looks like a reference is data', () => {
  const schema = {
    type: 'object',
    properties: { $ref: { type: 'string' }, definitions: { type: 'string' } },
    default: { $ref: '#/$defs/City' },
    enum: [{ $ref: '#/$defs/City' }],
  };
  expect(resolve(schema)).toEqual(schema);
});

test('references to references do not grow out of bounds', () => {
  const doubled = (at: number) => ({ anyOf: [1, 2].map(() => ({ $ref: `#/$defs/d${at + 1}` })) });
  const levels = Array.from({ length: 40 }, (_, at) => [`d${at}`, doubled(at)]);
  const $defs = { ...Object.fromEntries(levels), d40: city };
  const schema = { type: 'object', properties: { all: { $ref: '#/$defs/d0' } }, $defs };
  const references = new References();
  expect(references.resolveIn(schema)).toEqual(schema);
  // One request has one bound for all of its tools.
  const small = { type: 'object', properties: { city: { $ref: '#/$defs/d40' } }, $defs };
  expect(references.resolveIn(small)).toEqual(small);
});

test('a long schema is not written down for everything that refers to it', () => {
  const long = { type: 'string', description: 'x'.repeat(10_000) };
  const referring = (times: number) => {
    const names = Array.from({ length: times }, (_, at) => `p${at}`);
    const properties = Object.fromEntries(names.map((name) => [name, { $ref: '#/$defs/long' }]));
    return { type: 'object', properties, $defs: { long } };
  };
  const [few, many] = [referring(20), referring(9_000)];
  expect(resolve(few)).not.toHaveProperty('$defs');
  expect(resolve(many)).toEqual(many);
});

test('a long chain of references does not grow deep', () => {
  const levels = Array.from({ length: 500 }, (_, at) => [
    `d${at}`,
    { type: 'array', items: { $ref: `#/$defs/d${at + 1}` } },
  ]);
  const $defs = { ...Object.fromEntries(levels), d500: city };
  const schema = { type: 'object', properties: { all: { $ref: '#/$defs/d0' } }, $defs };
  expect(resolve(schema)).toEqual(schema);
});
