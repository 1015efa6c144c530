import { describe, expect, test } from 'bun:test';
import { sortForm } from './form-routing.ts';

type Field = readonly [name: string, ...texts: string[]];

const sorted = (...fields: Field[]) =>
  sortForm(new Map(fields.map(([name, ...texts]) => [name, texts])));

describe('sortForm', () => {
  test.each<[string, Field[], object]>([
    ['no routing fields', [['model', 'a/b']], {}],
    ['models as a repeated field', [['models', 'a/b', 'c/d']], { models: ['a/b', 'c/d'] }],
    ['models with brackets', [['models[]', 'a/b', 'c/d']], { models: ['a/b', 'c/d'] }],
    [
      'models with indexes',
      [
        ['models[0]', 'a/b'],
        ['models[1]', 'c/d'],
      ],
      { models: ['a/b', 'c/d'] },
    ],
    ['models as JSON', [['models', '["a/b","c/d"]']], { models: ['a/b', 'c/d'] }],
    ['a single model', [['models', 'a/b']], { models: ['a/b'] }],
    ['blank models', [['models', '']], { models: undefined }],
    ['provider as JSON', [['provider', '{"only":["x"]}']], { provider: { only: ['x'] } }],
    [
      'provider with brackets',
      [
        ['provider[order][]', 'x', 'y'],
        ['provider[allow_fallbacks]', 'false'],
        ['provider[require_parameters]', 'true'],
        ['provider[sort]', 'price'],
        ['provider[max_price][prompt]', '1.5'],
        ['provider[max_price][completion]', '2'],
      ],
      {
        provider: {
          order: ['x', 'y'],
          allow_fallbacks: false,
          require_parameters: true,
          sort: 'price',
          max_price: { prompt: '1.5', completion: '2' },
        },
      },
    ],
    ['a blank provider', [['provider', '']], { provider: null }],
    ['a provider that is not JSON', [['provider', 'openai']], { provider: 'openai' }],
    ['the route', [['route', 'sort']], { route: 'sort' }],
  ])('reads %s', (_, fields, routing) => {
    const { routing: actual, rest } = sorted(['prompt', 'x'], ...fields);
    expect<object>(actual).toEqual(routing);
    const names = fields.map(([name]) => name).filter((name) => name === 'model');
    expect([...rest.keys()]).toEqual(['prompt', ...names]);
  });

  test('reads __proto__ without changing other objects', () => {
    const { routing } = sorted(['provider[__proto__][polluted]', 'yes']);
    expect(Object.hasOwn(routing.provider as object, '__proto__')).toBe(true);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  test.each<[Field[], string]>([
    [[['provider', '{}', '{}']], 'provider'],
    [[['route', 'sort', 'fallback']], 'route'],
    [[['provider[sort]', 'price', 'latency']], 'provider[sort]'],
    [
      [
        ['provider', '{"sort":"price"}'],
        ['provider[sort]', 'price'],
      ],
      'provider',
    ],
  ])('rejects duplicates: %j', (fields, param) => {
    const message = `${param} appears twice.`;
    expect(() => sorted(...fields)).toThrow(
      expect.objectContaining({ status: 400, param, message }),
    );
  });
});
