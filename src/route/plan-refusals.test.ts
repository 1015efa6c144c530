import { expect, test } from 'bun:test';
import { callerOf } from '../../tests/support/caller.ts';
import { modelAt, providerNamed } from '../../tests/support/offers.ts';
import { GatewayError } from '../core/errors.ts';
import { noPreferences, type RoutePreferences } from '../core/request-info.ts';
import { Catalog } from './catalog.ts';
import { Health } from './health.ts';
import { plan } from './plan.ts';

const catalog = new Catalog(
  [
    modelAt('acme/a', [{ provider: 'north' }]),
    modelAt('acme/nowhere', []),
    modelAt('acme/off', [{ provider: 'east' }, { provider: 'south' }, { provider: 'east' }]),
  ],
  new Map([['north', providerNamed('north')]]),
);

function refusalOf(model: string, preferred: Partial<RoutePreferences> = {}): string | undefined {
  const context = {
    catalog,
    health: new Health(),
    operation: { incompatibility: () => null },
    supports: () => true,
  };
  const preferences = { ...noPreferences, ...preferred };
  try {
    plan({ models: [model], preferences, parameters: [] }, callerOf('acme'), context);
    return undefined;
  } catch (error) {
    return error instanceof GatewayError ? `${error.status} ${error.message}` : undefined;
  }
}

test.each([
  [{ only: ['east'] }, 'provider.only'],
  [{ ignore: ['north'] }, 'provider.ignore'],
  [{ order: ['east'], allowFallbacks: false }, 'provider.order without fallbacks'],
  [{ only: ['north'], ignore: ['north'] }, 'provider.only and provider.ignore'],
  [{ ignore: ['north'], order: ['north'] }, 'provider.ignore'],
  [{ only: ['east'], allowFallbacks: false }, 'provider.only'],
])('%j leaves no provider, and the refusal names the wishes that did it', (preferred, named) => {
  const message = `404 No provider of this model is left after ${named}.`;
  expect(refusalOf('acme/a', preferred)).toBe(message);
});

test('no fallbacks and no order are no reason to refuse', () => {
  expect(refusalOf('acme/a', { allowFallbacks: false })).toBeUndefined();
});

test('the refusal of a model that nobody serves here names the providers that could', () => {
  const none = (model: string) =>
    `404 No provider that serves the model "${model}" is configured here`;
  const needed = ': it needs a key of east or south.';
  expect(refusalOf('acme/off')).toBe(none('acme/off') + needed);
  expect(refusalOf('acme/nowhere')).toBe(`${none('acme/nowhere')}.`);
});
