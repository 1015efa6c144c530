import { describe, expect, test } from 'bun:test';
import { readModels, readPreferences } from './routing.ts';

const defaults = {
  ...{ order: [], only: null, ignore: [], allowFallbacks: true, sort: null, route: 'fallback' },
  ...{ maxPrice: { prompt: null, completion: null }, requireParameters: false, lossless: false },
};

describe('readPreferences', () => {
  test.each<[Parameters<typeof readPreferences>[0], object]>([
    [{}, {}],
    [{ provider: {} }, {}],
    [{ provider: { order: ['a', 'b'] } }, { order: ['a', 'b'] }],
    [{ provider: { only: ['a'] } }, { only: ['a'] }],
    [{ provider: { ignore: ['a'] } }, { ignore: ['a'] }],
    [{ provider: { allow_fallbacks: false } }, { allowFallbacks: false }],
    [{ provider: { sort: 'price' } }, { sort: 'price' }],
    [{ provider: { require_parameters: true } }, { requireParameters: true }],
    [{ route: 'sort' }, { route: 'sort' }],
    [
      { provider: { max_price: { prompt: '1.5', completion: null } } },
      { maxPrice: { prompt: 1.5, completion: null } },
    ],
    [{ provider: { max_price: { completion: 0 } } }, { maxPrice: { prompt: null, completion: 0 } }],
  ])('returns the defaults for everything except %j', (routing, expected) => {
    expect(readPreferences(routing)).toEqual({ ...defaults, ...expected } as never);
  });
});

describe('readModels', () => {
  const named = (count: number) => Array.from({ length: count }, (_, index) => `acme/${index}`);

  test('returns each model once, in order', () => {
    expect(readModels({ model: 'acme/1', models: ['acme/0', 'acme/1', 'acme/2'] })).toEqual([
      'acme/1',
      'acme/0',
      'acme/2',
    ]);
  });

  test('accepts at most 16 models', () => {
    expect(readModels({ models: named(16) })).toHaveLength(16);
    expect(() => readModels({ models: named(17) })).toThrow('lists 17 models');
    expect(() => readModels({ models: [] })).toThrow('model is required');
  });
});
