import { describe, expect, test } from 'bun:test';
import { callerOf } from '../../tests/support/caller.ts';
import { modelAt, providerNamed } from '../../tests/support/offers.ts';
import { fc } from '../../tests/support/random.ts';
import type { Caller } from '../core/caller.ts';
import { GatewayError } from '../core/errors.ts';
import { noPreferences, type RoutePreferences } from '../core/request-info.ts';
import { Catalog, type Offer } from './catalog.ts';
import { Health } from './health.ts';
import { plan } from './plan.ts';

const names = ['north', 'east', 'south'];
const catalog = new Catalog(
  [
    modelAt('acme/a', [
      { provider: 'north', prompt: '3' },
      { provider: 'east', prompt: '1' },
      { provider: 'south', prompt: '2' },
    ]),
    modelAt('acme/b', [{ provider: 'east', prompt: '0.5' }]),
    modelAt('acme/c', [
      { provider: 'north', priority: 2 },
      { provider: 'east', priority: 0 },
      { provider: 'south', priority: 1 },
    ]),
    modelAt('acme/idle', [{ provider: 'gone' }]),
    modelAt('acme/wordy', [
      { provider: 'north', prompt: '1', completion: '10' },
      { provider: 'east', prompt: '2', completion: '3' },
    ]),
  ],
  new Map(names.map((name) => [name, providerNamed(name)])),
);

const caller = callerOf('t');

interface PlanCase {
  readonly models?: readonly string[];
  readonly preferences?: Partial<RoutePreferences>;
  readonly health?: Health;
  readonly caller?: Caller;
  readonly parameters?: readonly string[];
  incompatibility?(offer: Offer): string | null;
  supports?(offer: Offer, name: string): boolean;
}

function planned(planCase: PlanCase = {}): string[] {
  const { models = ['acme/a'], preferences = {}, parameters = [] } = planCase;
  const offers = plan(
    { models, preferences: { ...noPreferences, ...preferences }, parameters },
    planCase.caller ?? caller,
    {
      catalog,
      health: planCase.health ?? new Health(),
      operation: { incompatibility: planCase.incompatibility ?? (() => null) },
      supports: planCase.supports ?? (() => true),
    },
  );
  return offers.map((offer) => offer.upstreamModel);
}

function errorOf(planCase: PlanCase): GatewayError | undefined {
  try {
    planned(planCase);
  } catch (error) {
    return error instanceof GatewayError ? error : undefined;
  }
  return undefined;
}

const inOrder = (...at: string[]) => at.map((name) => `acme/a@${name}`);

describe('plan', () => {
  test("orders by the client's models, then by priority", () => {
    expect(planned({ models: ['acme/b', 'acme/a'] })).toEqual([
      'acme/b@east',
      ...inOrder('north', 'east', 'south'),
    ]);
  });

  test('orders by priority, not by the position of the endpoint', () => {
    const sorted = ['acme/c@east', 'acme/c@south', 'acme/c@north'];
    expect(planned({ models: ['acme/c'] })).toEqual(sorted);
  });

  test('excludes offers above max_price for input and output', () => {
    const maxPrice = { prompt: 2, completion: 1 };
    expect(planned({ preferences: { maxPrice } })).toEqual(inOrder('east', 'south'));
    // Only the output price is limited.
    const outputLimit = { maxPrice: { prompt: null, completion: 3 } };
    expect(planned({ models: ['acme/wordy'], preferences: outputLimit })).toEqual([
      'acme/wordy@east',
    ]);
    const both = { maxPrice: { prompt: 1, completion: 3 } };
    expect(errorOf({ models: ['acme/wordy'], preferences: both })?.message).toContain('max_price');
  });

  test('sorts by throughput with untried offers first', () => {
    const health = new Health();
    const [north, east] = catalog.offers('acme/a');
    if (!north || !east) throw new Error('The catalog has no offers.');
    health.observeSpeed(north, 10);
    health.observeSpeed(east, 90);
    expect(planned({ health, preferences: { sort: 'throughput' } })).toEqual(
      inOrder('south', 'east', 'north'),
    );
  });

  test('sorts by price, input plus output', () => {
    expect(planned({ preferences: { sort: 'price' } })).toEqual(inOrder('east', 'south', 'north'));
    expect(planned({ models: ['acme/a', 'acme/b'], preferences: { route: 'sort' } })).toEqual([
      'acme/b@east',
      ...inOrder('east', 'south', 'north'),
    ]);
    // The output price also counts.
    const wordy = planned({ models: ['acme/wordy'], preferences: { sort: 'price' } });
    expect(wordy).toEqual(['acme/wordy@east', 'acme/wordy@north']);
  });

  test('skips models that the key may not use', () => {
    const limited = callerOf('t', { models: ['acme/b'] });
    for (const models of [
      ['acme/b', 'acme/a'],
      ['acme/a', 'acme/b'],
    ]) {
      expect(planned({ models, caller: limited })).toEqual(['acme/b@east']);
    }
  });

  test('puts the providers in `order` first and sorts the other providers by the sort key', () => {
    expect(planned({ preferences: { order: ['north'], sort: 'price' } })).toEqual(
      inOrder('north', 'east', 'south'),
    );
  });

  test("moves an offer with an open circuit to the end of its model's group", () => {
    const health = new Health(() => 0);
    const [north] = catalog.offers('acme/a');
    for (let i = 0; north && i < 5; i++) health.failed(north);
    expect(planned({ health, models: ['acme/a', 'acme/b'] })).toEqual([
      ...inOrder('east', 'south', 'north'),
      'acme/b@east',
    ]);
  });

  test('keeps the position of a recovering offer without using up its probe', () => {
    let now = 0;
    const health = new Health(() => now);
    const [north] = catalog.offers('acme/a');
    for (let i = 0; north && i < 5; i++) health.failed(north);
    expect(planned({ health })).toEqual(inOrder('east', 'south', 'north'));
    now = 5_000;
    for (const _ of ['first', 'again']) {
      expect(planned({ health })).toEqual(inOrder('north', 'east', 'south'));
    }
  });

  test('returns only the offers up to the first healthy one if fallbacks are off', () => {
    let now = 0;
    const health = new Health(() => now);
    const [north, east, south] = catalog.offers('acme/a');
    const fail = (offer: Offer | undefined) => {
      for (let i = 0; offer && i < 5; i++) health.failed(offer);
    };
    const withoutFallbacks = (preferences = {}) =>
      planned({
        health,
        models: ['acme/a', 'acme/b'],
        preferences: { allowFallbacks: false, ...preferences },
      });
    fail(north);
    now = 5_000;
    expect(withoutFallbacks()).toEqual(inOrder('north', 'east'));
    fail(east);
    fail(south);
    now = 10_000;
    // The other model wouldn't be called, so no credits are held for it.
    expect(withoutFallbacks()).toEqual(inOrder('north', 'east', 'south'));
    expect(withoutFallbacks({ route: 'sort', sort: 'latency' })).toEqual([
      ...inOrder('north', 'east', 'south'),
      'acme/b@east',
    ]);
  });

  test('returns a single offer if fallbacks are off', () => {
    expect(planned({ preferences: { allowFallbacks: false } })).toEqual(inOrder('north'));
    const preferences = { allowFallbacks: false, order: ['south', 'east'] };
    expect(planned({ preferences })).toEqual(inOrder('south'));
  });

  test('returns each allowed offer exactly once for any preferences', () => {
    const provider = fc.constantFrom(...names, 'nobody');
    const preferences = fc.record({
      order: fc.array(provider, { maxLength: 3 }),
      only: fc.option(fc.array(provider, { maxLength: 3 })),
      ignore: fc.array(provider, { maxLength: 2 }),
      sort: fc.constantFrom(null, 'price', 'latency', 'throughput'),
      route: fc.constantFrom('fallback', 'sort'),
    });
    fc.assert(
      fc.property(preferences, (some) => {
        const allowed = ['acme/a@north', 'acme/a@east', 'acme/a@south', 'acme/b@east'].filter(
          (offerName) => {
            const name = offerName.split('@')[1] ?? '';
            return (some.only?.includes(name) ?? true) && !some.ignore.includes(name);
          },
        );
        const planCase = { models: ['acme/a', 'acme/b'], preferences: some };
        if (allowed.length === 0) expect(errorOf(planCase)?.status).toBe(404);
        else expect(planned(planCase).sort()).toEqual(allowed.sort());
      }),
    );
  });
});

describe('plan without a usable offer', () => {
  test('throws 404 for an unknown model and suggests the closest name', () => {
    const error = errorOf({ models: ['acme/aa'] });
    expect([error?.status, error?.param]).toEqual([404, 'model']);
    expect(error?.message).toContain('"acme/a"');
  });

  test('throws 404 for a model without a configured provider', () => {
    const error = errorOf({ models: ['acme/idle'] });
    expect(error?.status).toBe(404);
    expect(error?.message).toContain('configured');
  });

  test('throws 403 if the key may use none of the models', () => {
    const error = errorOf({ caller: { ...caller, models: ['acme/b', 'other/*'] } });
    expect([error?.status, error?.symbol, error?.param]).toEqual([403, 'forbidden', 'model']);
    const both = { models: ['acme/a', 'acme/b'], caller: { ...caller, models: ['acme/b'] } };
    expect(planned(both)).toEqual(['acme/b@east']);
    const models = ['acme/nobody', 'acme/a', 'acme/b'];
    expect(errorOf({ models, caller: { ...caller, models: ['other/*'] } })?.message).toBe(
      'This API key may not use the model "acme/a".',
    );
  });

  test('skips incompatible offers and names the reason if none is left', () => {
    const incompatibility = (offer: Offer) =>
      offer.model.id === 'acme/a' ? "doesn't support singing" : null;
    expect(planned({ models: ['acme/a', 'acme/b'], incompatibility })).toEqual(['acme/b@east']);
    const error = errorOf({ incompatibility });
    expect(error?.symbol).toBe('model_capability_mismatch');
    expect(error?.message).toBe('The model "acme/a" doesn\'t support singing.');
  });

  test('checks the parameters only with require_parameters', () => {
    const supports = (offer: Offer, name: string) =>
      name !== 'seed' || offer.provider.name === 'south';
    const planCase = { parameters: ['seed', 'top_p'], supports };
    expect(planned(planCase)).toHaveLength(3);
    const preferences = { requireParameters: true };
    expect(planned({ ...planCase, preferences })).toEqual(inOrder('south'));
    expect(errorOf({ ...planCase, supports: () => false, preferences })?.param).toBe('provider');
  });
});

test('plan names the reason for a disabled model and similar models the key may use', () => {
  const off = { ...modelAt('old/chat', []), disabledReason: 'was shut down in spring' };
  const speech = {
    ...modelAt('acme/voice', [{ provider: 'north' }]),
    features: ['speech' as const],
  };
  const callable = [
    speech,
    ...['acme/a', 'acme/b'].map((id) => modelAt(id, [{ provider: 'north' }])),
  ];
  const north = new Map([['north', providerNamed('north')]]);
  const context = {
    catalog: new Catalog([off, ...callable], north),
    health: new Health(),
    operation: { incompatibility: () => null },
    supports: () => true,
  };
  const request = { models: ['old/chat'], preferences: noPreferences, parameters: [] };
  expect(() =>
    plan(request, { ...caller, models: ['acme/voice', 'acme/b', 'old/*'] }, context),
  ).toThrow('The model "old/chat" was shut down in spring; use "acme/b".');
  expect(() => plan(request, { ...caller, models: ['acme/voice', 'old/*'] }, context)).toThrow(
    'The model "old/chat" was shut down in spring; GET /v1/models lists the available models.',
  );
});

test('plan suggests the closest model only if the key may use it', () => {
  expect(() => planned({ models: ['acme/aa'] })).toThrow('did you mean "acme/a"?');
  const limited = { ...caller, models: ['acme/zzz'] };
  expect(() => planned({ models: ['acme/aa'], caller: limited })).toThrow(
    'There is no model "acme/aa"; GET /v1/models lists the available models.',
  );
});
