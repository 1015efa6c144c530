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

function errorOf(model: string, preferences: Partial<RoutePreferences> = {}): string | undefined {
  const context = {
    catalog,
    health: new Health(),
    operation: { incompatibility: () => null },
    supports: () => true,
  };
  const allPreferences = { ...noPreferences, ...preferences };
  try {
    plan(
      { models: [model], preferences: allPreferences, parameters: [] },
      callerOf('acme'),
      context,
    );
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
])('plan rejects %j if no provider remains and names the preferences', (preferences, named) => {
  const message = `404 No provider of this model matches ${named}.`;
  expect(errorOf('acme/a', preferences)).toBe(message);
});

test('plan accepts allow_fallbacks false without an order', () => {
  expect(errorOf('acme/a', { allowFallbacks: false })).toBeUndefined();
});

test('plan names the providers of a model that are not configured', () => {
  const message = (model: string) => `404 No provider of the model "${model}" is configured.`;
  const hint = ' It needs a provider key for east or south.';
  expect(errorOf('acme/off')).toBe(message('acme/off') + hint);
  expect(errorOf('acme/nowhere')).toBe(message('acme/nowhere'));
});
