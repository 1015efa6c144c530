import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { callerOf } from '../../tests/support/caller.ts';
import { modelAt, providerNamed } from '../../tests/support/offers.ts';
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

interface Setting {
  readonly models?: readonly string[];
  readonly preferred?: Partial<RoutePreferences>;
  readonly health?: Health;
  readonly caller?: Caller;
  readonly parameters?: readonly string[];
  incompatibility?(offer: Offer): string | null;
  supports?(offer: Offer, name: string): boolean;
}

function planned(setting: Setting = {}): string[] {
  const { models = ['acme/a'], preferred = {}, parameters = [] } = setting;
  const offers = plan(
    { models, preferences: { ...noPreferences, ...preferred }, parameters },
    setting.caller ?? caller,
    {
      catalog,
      health: setting.health ?? new Health(),
      operation: { incompatibility: setting.incompatibility ?? (() => null) },
      supports: setting.supports ?? (() => true),
    },
  );
  return offers.map((offer) => offer.upstreamModel);
}

function refusal(setting: Setting): GatewayError | undefined {
  try {
    planned(setting);
  } catch (error) {
    return error instanceof GatewayError ? error : undefined;
  }
  return undefined;
}

const inOrder = (...at: string[]) => at.map((name) => `acme/a@${name}`);

describe('the plan', () => {
  test('goes by priority, then by the chain', () => {
    expect(planned({ models: ['acme/b', 'acme/a'] })).toEqual([
      'acme/b@east',
      ...inOrder('north', 'east', 'south'),
    ]);
  });

  test('goes by the priorities given, not by the order of the list', () => {
    const sorted = ['acme/c@east', 'acme/c@south', 'acme/c@north'];
    expect(planned({ models: ['acme/c'] })).toEqual(sorted);
  });

  test('keeps to a highest price, which may itself be asked', () => {
    const maxPrice = { prompt: 2, completion: 1 };
    expect(planned({ preferred: { maxPrice } })).toEqual(inOrder('east', 'south'));
    // There is a highest price for output, too.
    const wordless = { maxPrice: { prompt: null, completion: 3 } };
    expect(planned({ models: ['acme/wordy'], preferred: wordless })).toEqual(['acme/wordy@east']);
    const both = { maxPrice: { prompt: 1, completion: 3 } };
    expect(refusal({ models: ['acme/wordy'], preferred: both })?.message).toContain('max_price');
  });

  test('sorts by throughput, the unknown first and the slowest last', () => {
    const health = new Health();
    const [north, east] = catalog.offers('acme/a');
    if (!north || !east) throw new Error('The catalogue has lost its offers.');
    health.observeSpeed(north, 10);
    health.observeSpeed(east, 90);
    expect(planned({ health, preferred: { sort: 'throughput' } })).toEqual(
      inOrder('south', 'east', 'north'),
    );
  });

  test('sorts by price, the cheapest first', () => {
    expect(planned({ preferred: { sort: 'price' } })).toEqual(inOrder('east', 'south', 'north'));
    expect(planned({ models: ['acme/a', 'acme/b'], preferred: { route: 'sort' } })).toEqual([
      'acme/b@east',
      ...inOrder('east', 'south', 'north'),
    ]);
    // The price of output counts as well.
    const wordy = planned({ models: ['acme/wordy'], preferred: { sort: 'price' } });
    expect(wordy).toEqual(['acme/wordy@east', 'acme/wordy@north']);
  });

  test('has nothing of a chain that the key may not use, wherever it stands', () => {
    const limited = callerOf('t', { models: ['acme/b'] });
    for (const models of [
      ['acme/b', 'acme/a'],
      ['acme/a', 'acme/b'],
    ]) {
      expect(planned({ models, caller: limited })).toEqual(['acme/b@east']);
    }
  });

  test('an order wins over a sort, and the sort arranges the rest', () => {
    expect(planned({ preferred: { order: ['north'], sort: 'price' } })).toEqual(
      inOrder('north', 'east', 'south'),
    );
  });

  test('a candidate with an open circuit goes to the end of its model’s group', () => {
    const health = new Health(() => 0);
    const [north] = catalog.offers('acme/a');
    for (let i = 0; north && i < 5; i++) health.failed(north);
    expect(planned({ health, models: ['acme/a', 'acme/b'] })).toEqual([
      ...inOrder('east', 'south', 'north'),
      'acme/b@east',
    ]);
  });

  test('an offer that may be probed has its usual place, and planning uses up no probe', () => {
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

  test('without fallbacks only the next offer stands in for one that recovers', () => {
    let now = 0;
    const health = new Health(() => now);
    const [north, east, south] = catalog.offers('acme/a');
    const fail = (offer: Offer | undefined) => {
      for (let i = 0; offer && i < 5; i++) health.failed(offer);
    };
    const alone = (preferred = {}) =>
      planned({
        health,
        models: ['acme/a', 'acme/b'],
        preferred: { allowFallbacks: false, ...preferred },
      });
    fail(north);
    now = 5_000;
    expect(alone()).toEqual(inOrder('north', 'east'));
    fail(east);
    fail(south);
    now = 10_000;
    // The other model would not be asked, so no credits are set aside for it.
    expect(alone()).toEqual(inOrder('north', 'east', 'south'));
    expect(alone({ route: 'sort', sort: 'latency' })).toEqual([
      ...inOrder('north', 'east', 'south'),
      'acme/b@east',
    ]);
  });

  test('without fallbacks there is one candidate', () => {
    expect(planned({ preferred: { allowFallbacks: false } })).toEqual(inOrder('north'));
    const preferred = { allowFallbacks: false, order: ['south', 'east'] };
    expect(planned({ preferred })).toEqual(inOrder('south'));
  });

  test('whatever the wishes, it holds each wanted offer once and no other', () => {
    const provider = fc.constantFrom(...names, 'nobody');
    const preferred = fc.record({
      order: fc.array(provider, { maxLength: 3 }),
      only: fc.option(fc.array(provider, { maxLength: 3 })),
      ignore: fc.array(provider, { maxLength: 2 }),
      sort: fc.constantFrom(null, 'price', 'latency', 'throughput'),
      route: fc.constantFrom('fallback', 'sort'),
    });
    fc.assert(
      fc.property(preferred, (some) => {
        const wanted = ['acme/a@north', 'acme/a@east', 'acme/a@south', 'acme/b@east'].filter(
          (at) => {
            const name = at.split('@')[1] ?? '';
            return (some.only?.includes(name) ?? true) && !some.ignore.includes(name);
          },
        );
        const setting = { models: ['acme/a', 'acme/b'], preferred: some };
        if (wanted.length === 0) expect(refusal(setting)?.status).toBe(404);
        else expect(planned(setting).sort()).toEqual(wanted.sort());
      }),
    );
  });
});

describe('no plan', () => {
  test('an unknown model is 404, with the nearest name', () => {
    const error = refusal({ models: ['acme/aa'] });
    expect([error?.status, error?.param]).toEqual([404, 'model']);
    expect(error?.message).toContain('"acme/a"');
  });

  test('a known model without a provider says so', () => {
    const error = refusal({ models: ['acme/idle'] });
    expect(error?.status).toBe(404);
    expect(error?.message).toContain('configured');
  });

  test('a key that may use none of the models is 403', () => {
    const error = refusal({ caller: { ...caller, models: ['acme/b', 'other/*'] } });
    expect([error?.status, error?.symbol, error?.param]).toEqual([403, 'forbidden', 'model']);
    const both = { models: ['acme/a', 'acme/b'], caller: { ...caller, models: ['acme/b'] } };
    expect(planned(both)).toEqual(['acme/b@east']);
    const models = ['acme/nobody', 'acme/a', 'acme/b'];
    expect(refusal({ models, caller: { ...caller, models: ['other/*'] } })?.message).toBe(
      'This API key may not use the model "acme/a".',
    );
  });

  test('a misfit of all candidates is named, of some it is passed over', () => {
    const incompatibility = (offer: Offer) => (offer.model.id === 'acme/a' ? 'cannot sing' : null);
    expect(planned({ models: ['acme/a', 'acme/b'], incompatibility })).toEqual(['acme/b@east']);
    const error = refusal({ incompatibility });
    expect(error?.symbol).toBe('model_capability_mismatch');
    expect(error?.message).toBe('The model "acme/a" cannot sing.');
  });

  test('parameters count only when the client insists', () => {
    const supports = (offer: Offer, name: string) =>
      name !== 'seed' || offer.provider.name === 'south';
    const setting = { parameters: ['seed', 'top_p'], supports };
    expect(planned(setting)).toHaveLength(3);
    const preferred = { requireParameters: true };
    expect(planned({ ...setting, preferred })).toEqual(inOrder('south'));
    expect(refusal({ ...setting, supports: () => false, preferred })?.param).toBe('provider');
  });
});

test('a model that is off says why, and names models of its kind that the key may use', () => {
  const off = { ...modelAt('old/chat', []), whyOff: 'is off since spring' };
  const speaks = {
    ...modelAt('acme/voice', [{ provider: 'north' }]),
    features: ['speech' as const],
  };
  const live = [speaks, ...['acme/a', 'acme/b'].map((id) => modelAt(id, [{ provider: 'north' }]))];
  const north = new Map([['north', providerNamed('north')]]);
  const context = {
    catalog: new Catalog([off, ...live], north),
    health: new Health(),
    operation: { incompatibility: () => null },
    supports: () => true,
  };
  const request = { models: ['old/chat'], preferences: noPreferences, parameters: [] };
  expect(() =>
    plan(request, { ...caller, models: ['acme/voice', 'acme/b', 'old/*'] }, context),
  ).toThrow('The model "old/chat" is off since spring; use "acme/b".');
  expect(() => plan(request, { ...caller, models: ['acme/voice', 'old/*'] }, context)).toThrow(
    'The model "old/chat" is off since spring; GET /v1/models lists those that exist.',
  );
});

test('a misspelt model is told the nearest that the key may use, and no other', () => {
  expect(() => planned({ models: ['acme/aa'] })).toThrow('did you mean "acme/a"?');
  const elsewhere = { ...caller, models: ['acme/zzz'] };
  expect(() => planned({ models: ['acme/aa'], caller: elsewhere })).toThrow(
    'There is no model "acme/aa"; GET /v1/models lists those that exist.',
  );
});
