import { describe, expect, test } from 'bun:test';
import { readChain, readPreferences } from './routing.ts';

const unsaid = {
  ...{ order: [], only: null, ignore: [], allowFallbacks: true, sort: null, route: 'fallback' },
  ...{ maxPrice: { prompt: null, completion: null }, requireParameters: false },
};

describe('preferences', () => {
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
  ])('of %j leave all others at their defaults', (asked, said) => {
    expect(readPreferences(asked)).toEqual({ ...unsaid, ...said } as never);
  });
});

describe('the models to try', () => {
  const named = (count: number) => Array.from({ length: count }, (_, at) => `acme/${at}`);

  test('are each tried once, the first one first', () => {
    expect(readChain({ model: 'acme/1', models: ['acme/0', 'acme/1', 'acme/2'] })).toEqual([
      'acme/1',
      'acme/0',
      'acme/2',
    ]);
  });

  test('are sixteen at most', () => {
    expect(readChain({ models: named(16) })).toHaveLength(16);
    expect(() => readChain({ models: named(17) })).toThrow('name 17 models');
    expect(() => readChain({ models: [] })).toThrow('model is required');
  });
});
