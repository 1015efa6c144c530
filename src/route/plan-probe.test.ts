import { expect, test } from 'bun:test';
import { modelAt, providerNamed } from '../../tests/support/offers.ts';
import { noPreferences } from '../core/request-info.ts';
import { Catalog, type Offer } from './catalog.ts';
import { Health } from './health.ts';
import { withProbe } from './plan.ts';

const names = ['north', 'east', 'south'];
const endpoints = names.map((provider) => ({ provider }));
const catalog = new Catalog(
  [modelAt('a', endpoints), modelAt('b', endpoints)],
  new Map(names.map((name) => [name, providerNamed(name)])),
);
const plan = [...catalog.offers('a'), ...catalog.offers('b')];
const ofB = ['b@north', 'b@east', 'b@south'];

/** Fails offers at these providers until their circuits open. */
function withOpenCircuits(...providers: string[]) {
  const clock = { now: 0 };
  const health = new Health(() => clock.now);
  for (const offer of catalog.offers('a')) {
    if (!providers.includes(offer.provider.name)) continue;
    for (let i = 0; i < 5; i++) health.failed(offer);
  }
  const probe = (offers: readonly Offer[] = plan, preferences = {}) =>
    withProbe(offers, { ...noPreferences, ...preferences }, health).map((one) => one.upstreamModel);
  return { clock, probe };
}

test('withProbe makes one of several requests the probe of the first offer', () => {
  const { clock, probe } = withOpenCircuits('north');
  clock.now = 5_000;
  expect(probe()).toEqual(['a@north', 'a@east', 'a@south', ...ofB]);
  expect(probe()).toEqual(['a@east', 'a@south', 'a@north', ...ofB]);
});

test('withProbe lets the next request probe the next recovering offer', () => {
  const { clock, probe } = withOpenCircuits('north', 'east');
  clock.now = 5_000;
  expect([probe()[0], probe()[0], probe()[0]]).toEqual(['a@north', 'a@east', 'a@south']);
});

test('withProbe probes an offer only for requests that start with it', () => {
  const { clock, probe } = withOpenCircuits('east');
  clock.now = 5_000;
  const [north, east, south] = catalog.offers('a');
  const first = east && north && south ? [east, north, south] : [];
  for (const _ of ['first', 'again']) expect(probe()[0]).toBe('a@north');
  expect([probe(first)[0], probe(first)[0]]).toEqual(['a@east', 'a@north']);
});

test('withProbe moves an offer behind those of all models with route "sort"', () => {
  const { clock, probe } = withOpenCircuits('north');
  clock.now = 5_000;
  const sorted = plan.toSorted((a, b) => b.provider.name.localeCompare(a.provider.name)).slice(2);
  const usual = ['a@north', 'b@north', 'a@east', 'b@east'];
  expect(probe(sorted, { route: 'sort' })).toEqual(usual);
  expect(probe(sorted, { route: 'sort' })).toEqual(['b@north', 'a@east', 'b@east', 'a@north']);
});

test('withProbe returns only the next offer of the model if fallbacks are off', () => {
  const { clock, probe } = withOpenCircuits('north', 'east', 'south');
  const preferences = { allowFallbacks: false };
  clock.now = 5_000;
  const probed = [probe(plan, preferences), probe(plan, preferences), probe(plan, preferences)];
  expect(probed).toEqual([['a@north'], ['a@east'], ['a@south']]);
  expect([probe(plan, preferences), probe([], preferences)]).toEqual([['a@north'], []]);
});

test('withProbe keeps a model with a single offer first', () => {
  const { probe } = withOpenCircuits();
  const alone = plan.slice(2);
  expect(probe(alone)).toEqual(['a@south', ...ofB]);
  expect(probe(alone, { allowFallbacks: false })).toEqual(['a@south']);
});

test('withProbe keeps the order if no offer admits a probe yet', () => {
  const { probe } = withOpenCircuits(...names);
  const usual = ['a@north', 'a@east', 'a@south', ...ofB];
  expect(probe()).toEqual(usual);
  expect(probe(plan.slice(0, 1))).toEqual(['a@north']);
  expect(probe([])).toEqual([]);
});
