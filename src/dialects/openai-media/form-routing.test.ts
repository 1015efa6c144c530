import { describe, expect, test } from 'bun:test';
import { GatewayError } from '../../core/errors.ts';
import { sortForm } from './form-routing.ts';

type Field = readonly [name: string, ...texts: string[]];

const sorted = (...fields: Field[]) =>
  sortForm(new Map(fields.map(([name, ...texts]) => [name, texts])));

describe('a form says', () => {
  test.each<[string, Field[], object]>([
    ['nothing', [['model', 'a/b']], {}],
    ['its chain by repeating the field', [['models', 'a/b', 'c/d']], { models: ['a/b', 'c/d'] }],
    ['its chain with brackets', [['models[]', 'a/b', 'c/d']], { models: ['a/b', 'c/d'] }],
    [
      'its chain with places',
      [
        ['models[0]', 'a/b'],
        ['models[1]', 'c/d'],
      ],
      { models: ['a/b', 'c/d'] },
    ],
    ['its chain in JSON', [['models', '["a/b","c/d"]']], { models: ['a/b', 'c/d'] }],
    ['a chain of one', [['models', 'a/b']], { models: ['a/b'] }],
    ['a chain that is left blank', [['models', '']], { models: undefined }],
    ['preferences in JSON', [['provider', '{"only":["x"]}']], { provider: { only: ['x'] } }],
    [
      'preferences with brackets',
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
    ['preferences left blank', [['provider', '']], { provider: null }],
    ['preferences that are no JSON', [['provider', 'openai']], { provider: 'openai' }],
    ['its strategy', [['route', 'sort']], { route: 'sort' }],
  ])('%s', (_what, fields, routing) => {
    const { routing: found, rest } = sorted(['prompt', 'x'], ...fields);
    expect<object>(found).toEqual(routing);
    const names = fields.map(([name]) => name).filter((name) => name === 'model');
    expect([...rest.keys()]).toEqual(['prompt', ...names]);
  });

  test('__proto__, which changes no other object', () => {
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
  ])('not the same thing twice: %j', (fields, param) => {
    const refused = (() => {
      try {
        return sorted(...fields);
      } catch (error) {
        return error;
      }
    })();
    if (!(refused instanceof GatewayError)) throw new Error('It was not refused.');
    expect([refused.status, refused.param, refused.message]).toEqual([
      400,
      param,
      `${param} is given twice.`,
    ]);
  });
});
