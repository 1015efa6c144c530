import { describe, expect, test } from 'bun:test';
import { callerOf } from '../../tests/support/caller.ts';
import { modelAt, providerNamed } from '../../tests/support/offers.ts';
import type { Provider } from '../config/config.ts';
import type { Credential } from '../core/caller.ts';
import { noPreferences, type RoutePreferences } from '../core/request-info.ts';
import { Secret } from '../core/secret.ts';
import { Catalog, type Offer, withProviderKeys } from './catalog.ts';
import { Health } from './health.ts';
import { plan } from './plan.ts';

function provider(name: string, change: Partial<Provider> = {}): Provider {
  return providerNamed(name, {
    baseUrl: `http://${name}.test/v1`,
    apiKey: new Secret(`operator-${name}`),
    headers: { 'x-account': new Secret('operator-header') },
    ...change,
  });
}

const providers = [
  provider('north'),
  provider('south'),
  provider('closed', { shared: false }),
  provider('open', { byokBaseUrl: true }),
];
const catalog = new Catalog(
  [
    modelAt('acme/a', [{ provider: 'north' }, { provider: 'south' }]),
    modelAt('acme/closed', [{ provider: 'closed' }]),
    modelAt('acme/open', [{ provider: 'open' }]),
  ],
  new Map(providers.map((one) => [one.name, one])),
);

function credential(at: string, change: Partial<Credential> = {}): Credential {
  const apiKey = new Secret(`own-${at}`);
  const scope = `tenant ${at}`;
  return { provider: at, apiKey, baseUrl: null, mode: 'byok_first', scope, ...change };
}

const caller = callerOf('t');

interface Setting {
  readonly alias?: string;
  readonly preferred?: Partial<RoutePreferences>;
  readonly health?: Health;
}

function planOffers(credentials: readonly Credential[], setting: Setting = {}): readonly Offer[] {
  const { alias = 'acme/a', preferred = {}, health = new Health() } = setting;
  const request = {
    models: [alias],
    preferences: { ...noPreferences, ...preferred },
    parameters: [],
  };
  return plan(request, caller, {
    catalog: withProviderKeys(catalog, credentials, 500),
    health,
    operation: { incompatibility: () => null },
    supports: () => true,
  });
}

/** Each planned offer by the key it would be called with. */
function planned(credentials: readonly Credential[], setting?: Setting): string[] {
  return planOffers(credentials, setting).map((offer) => offer.provider.apiKey?.reveal() ?? '');
}

describe('a tenant’s own account', () => {
  test('is tried right before the shared one of the same endpoint', () => {
    expect(planned([])).toEqual(['operator-north', 'operator-south']);
    expect(planned([credential('south')])).toEqual([
      'operator-north',
      'own-south',
      'operator-south',
    ]);
    expect(planned([credential('north')], { preferred: { ignore: ['south'] } })).toEqual([
      'own-north',
      'operator-north',
    ]);
  });

  test('stands alone with byok_only', () => {
    const only = credential('north', { mode: 'byok_only' });
    expect(planned([only])).toEqual(['own-north']);
    expect(planned([only, credential('south')])).toEqual(['own-north', 'own-south']);
  });

  test('stays in front of the shared one however candidates are sorted', () => {
    const [own] = planOffers([credential('north')]);
    const health = new Health();
    if (own) health.succeeded(own, 900);
    for (const offer of catalog.offers('acme/a')) health.succeeded(offer, 10);
    const preferred = { sort: 'latency' } as const;
    expect(planned([credential('north')], { health, preferred })).toEqual([
      'operator-south',
      'own-north',
      'operator-north',
    ]);
  });

  test('is the one candidate when a request forbids others', () => {
    expect(planned([credential('north')], { preferred: { allowFallbacks: false } })).toEqual([
      'own-north',
    ]);
  });

  test('opens models that have no shared capacity', () => {
    const why = 'acme/closed" is configured here: it needs a key of closed.';
    expect(() => planned([], { alias: 'acme/closed' })).toThrow(why);
    expect(planned([credential('closed')], { alias: 'acme/closed' })).toEqual(['own-closed']);
    const live = (credentials: readonly Credential[]) =>
      withProviderKeys(catalog, credentials, 500)
        .callable()
        .map(({ id }) => id);
    expect(live([])).toEqual(['acme/a', 'acme/open']);
    expect(live([credential('open')])).toEqual(['acme/a', 'acme/open']);
    expect(live([credential('closed')])).toEqual(['acme/a', 'acme/closed', 'acme/open']);
    const own = withProviderKeys(catalog, [credential('closed')], 500);
    expect(own.suggest('acme/close')).toBe('acme/closed');
    expect(catalog.suggest('acme/close')).not.toBe('acme/closed');
  });

  test('gets nothing of the operator’s but the address, and pays the fee', () => {
    const [own] = planOffers([credential('north')]);
    expect(own?.provider.headers).toEqual({});
    expect(own?.provider.baseUrl).toBe('http://north.test/v1');
    expect(own?.own).toMatchObject({ feeBasisPoints: 500, isUserAddress: false });
  });
});

describe('a credential with an address of its own', () => {
  const baseUrl = 'https://proxy.example/v1';

  test('is used there, where the provider allows it, and checked as a user’s', () => {
    const [own] = planOffers([credential('open', { baseUrl })], { alias: 'acme/open' });
    expect(own?.provider.baseUrl).toBe(baseUrl);
    expect(own?.own?.isUserAddress).toBe(true);
    expect(own?.own?.sharedNext?.provider.baseUrl).toBe('http://open.test/v1');
  });

  test('is not taken elsewhere once the operator forbids such addresses', () => {
    expect(planned([credential('north', { baseUrl })])).toEqual([
      'operator-north',
      'operator-south',
    ]);
    const only = credential('north', { baseUrl, mode: 'byok_only' });
    expect(() => planned([only])).toThrow('No provider');
  });
});

test('a credential that cannot be read is not replaced by the operator’s in byok_only', () => {
  expect(planned([credential('north', { apiKey: null })])).toEqual([
    'operator-north',
    'operator-south',
  ]);
  const only = credential('north', { apiKey: null, mode: 'byok_only' });
  expect(() => planned([only])).toThrow('No provider');
});

test('failures of one credential open its own circuit and no other', () => {
  const health = new Health(() => 0);
  const [bad] = planOffers([credential('north')]);
  for (let i = 0; i < 5; i++) if (bad) health.failed(bad);
  expect(planned([credential('north')], { health })).toEqual([
    'operator-north',
    'operator-south',
    'own-north',
  ]);
  expect(planned([], { health })).toEqual(['operator-north', 'operator-south']);
  const other = credential('north', { scope: 'another', apiKey: new Secret('own-other') });
  expect(planned([other], { health })[0]).toBe('own-other');
});

test('shared capacity that fails goes to the end, and the account before it stays', () => {
  const health = new Health(() => 0);
  const [shared] = catalog.offers('acme/a');
  for (let i = 0; i < 5; i++) if (shared) health.failed(shared);
  expect(planned([credential('north')], { health })).toEqual([
    'own-north',
    'operator-south',
    'operator-north',
  ]);
});

test('health forgets the credentials unused for longest, never those in use', () => {
  const health = new Health(() => 0);
  const [busy] = catalog.offers('acme/a');
  const [bad] = planOffers([credential('north')]);
  if (!busy || !bad) throw new Error('The plan is empty.');
  for (let i = 0; i < 5; i++) health.failed(bad);
  for (let i = 0; i < 5; i++) health.failed(busy);
  for (let i = 0; i < 10_000; i++) {
    health.succeeded({ ...bad, own: { scope: `tenant ${i}` } }, 1);
    if (i % 1_000 === 0) health.observeSpeed(busy, 1);
  }
  expect(health.state(bad)).toBe('closed');
  expect(health.state(busy)).toBe('open');
});
