import { expect, test } from 'bun:test';
import { inputSchema } from './clean-schema.ts';

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
