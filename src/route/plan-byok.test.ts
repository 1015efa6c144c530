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

function credential(providerName: string, change: Partial<Credential> = {}): Credential {
  const apiKey = new Secret(`own-${providerName}`);
  const credentialVersion = `tenant ${providerName}`;
  return {
    provider: providerName,
    apiKey,
    baseUrl: null,
    mode: 'byok_first',
    credentialVersion,
    ...change,
  };
}

const caller = callerOf('t');

interface PlanCase {
  readonly alias?: string;
  readonly preferences?: Partial<RoutePreferences>;
  readonly health?: Health;
}

function planOffers(credentials: readonly Credential[], planCase: PlanCase = {}): readonly Offer[] {
  const { alias = 'acme/a', preferences = {}, health = new Health() } = planCase;
  const request = {
    models: [alias],
    preferences: { ...noPreferences, ...preferences },
    parameters: [],
  };
  return plan(request, caller, {
    catalog: withProviderKeys(catalog, 500)(credentials),
    health,
    operation: { incompatibility: () => null },
    supports: () => true,
  });
}

/** Returns the provider key of each planned offer. */
function planned(credentials: readonly Credential[], planCase?: PlanCase): string[] {
  return planOffers(credentials, planCase).map((offer) => offer.provider.apiKey?.reveal() ?? '');
}

describe('plan with a provider key of the tenant', () => {
  test('tries it right before the shared offer of the same endpoint', () => {
    expect(planned([])).toEqual(['operator-north', 'operator-south']);
    expect(planned([credential('south')])).toEqual([
      'operator-north',
      'own-south',
      'operator-south',
    ]);
    expect(planned([credential('north')], { preferences: { ignore: ['south'] } })).toEqual([
      'own-north',
      'operator-north',
    ]);
  });

  test('excludes shared offers with byok_only', () => {
    const only = credential('north', { mode: 'byok_only' });
    expect(planned([only])).toEqual(['own-north']);
    expect(planned([only, credential('south')])).toEqual(['own-north', 'own-south']);
  });

  test('keeps it before the shared offer in any sort order', () => {
    const [own] = planOffers([credential('north')]);
    const health = new Health();
    if (own) health.succeeded(own, 900);
    for (const offer of catalog.offers('acme/a')) health.succeeded(offer, 10);
    const preferences = { sort: 'latency' } as const;
    expect(planned([credential('north')], { health, preferences })).toEqual([
      'operator-south',
      'own-north',
      'operator-north',
    ]);
  });

  test('uses only that key if fallbacks are off', () => {
    expect(planned([credential('north')], { preferences: { allowFallbacks: false } })).toEqual([
      'own-north',
    ]);
  });

  test('makes models without shared capacity callable', () => {
    const message = 'acme/closed" is configured. It needs a provider key for closed.';
    expect(() => planned([], { alias: 'acme/closed' })).toThrow(message);
    expect(planned([credential('closed')], { alias: 'acme/closed' })).toEqual(['own-closed']);
    const callable = (credentials: readonly Credential[]) =>
      withProviderKeys(
        catalog,
        500,
      )(credentials)
        .callable()
        .map(({ id }) => id);
    expect(callable([])).toEqual(['acme/a', 'acme/open']);
    expect(callable([credential('open')])).toEqual(['acme/a', 'acme/open']);
    expect(callable([credential('closed')])).toEqual(['acme/a', 'acme/closed', 'acme/open']);
    const ownAccount = withProviderKeys(catalog, 500)([credential('closed')]);
    expect(ownAccount.suggest('acme/close')).toBe('acme/closed');
    expect(catalog.suggest('acme/close')).not.toBe('acme/closed');
  });

  test("uses only the operator's URL, not its headers, and charges the fee", () => {
    const [ownAccount] = planOffers([credential('north')]);
    expect(ownAccount?.provider.headers).toEqual({});
    expect(ownAccount?.provider.baseUrl).toBe('http://north.test/v1');
    expect(ownAccount?.ownAccount).toMatchObject({ feeBasisPoints: 500, isUserUrl: false });
  });
});

describe('plan with a provider key that has a base URL', () => {
  const baseUrl = 'https://proxy.example/v1';

  test('uses the URL if the provider allows it and marks it as user-supplied', () => {
    const [ownAccount] = planOffers([credential('open', { baseUrl })], { alias: 'acme/open' });
    expect(ownAccount?.provider.baseUrl).toBe(baseUrl);
    expect(ownAccount?.ownAccount?.isUserUrl).toBe(true);
    expect(ownAccount?.ownAccount?.sharedNext?.provider.baseUrl).toBe('http://open.test/v1');
  });

  test('does not use the key if the operator forbids such URLs', () => {
    expect(planned([credential('north', { baseUrl })])).toEqual([
      'operator-north',
      'operator-south',
    ]);
    const only = credential('north', { baseUrl, mode: 'byok_only' });
    expect(() => planned([only])).toThrow('No provider');
  });
});

test("plan does not replace an unreadable byok_only key with the operator's", () => {
  expect(planned([credential('north', { apiKey: null })])).toEqual([
    'operator-north',
    'operator-south',
  ]);
  const only = credential('north', { apiKey: null, mode: 'byok_only' });
  expect(() => planned([only])).toThrow('No provider');
});

test('failures of one provider key open only its own circuit', () => {
  const health = new Health(() => 0);
  const [bad] = planOffers([credential('north')]);
  for (let i = 0; i < 5; i++) if (bad) health.failed(bad);
  expect(planned([credential('north')], { health })).toEqual([
    'operator-north',
    'operator-south',
    'own-north',
  ]);
  expect(planned([], { health })).toEqual(['operator-north', 'operator-south']);
  const other = credential('north', {
    credentialVersion: 'another',
    apiKey: new Secret('own-other'),
  });
  expect(planned([other], { health })[0]).toBe('own-other');
});

test("plan moves a failing shared offer to the end, but not the tenant's offer before it", () => {
  const health = new Health(() => 0);
  const [shared] = catalog.offers('acme/a');
  for (let i = 0; i < 5; i++) if (shared) health.failed(shared);
  expect(planned([credential('north')], { health })).toEqual([
    'own-north',
    'operator-south',
    'operator-north',
  ]);
});

test('Health forgets the least recently used provider keys', () => {
  const health = new Health(() => 0);
  const [busy] = catalog.offers('acme/a');
  const [bad] = planOffers([credential('north')]);
  if (!busy || !bad) throw new Error('The plan is empty.');
  for (let i = 0; i < 5; i++) health.failed(bad);
  for (let i = 0; i < 5; i++) health.failed(busy);
  for (let i = 0; i < 10_000; i++) {
    health.succeeded({ ...bad, ownAccount: { credentialVersion: `tenant ${i}` } }, 1);
    if (i % 1_000 === 0) health.observeSpeed(busy, 1);
  }
  expect(health.state(bad)).toBe('closed');
  expect(health.state(busy)).toBe('open');
});
