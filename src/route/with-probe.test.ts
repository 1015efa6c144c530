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

/** Offers at these providers fail until their circuits are open. */
function sick(...providers: string[]) {
  const clock = { now: 0 };
  const health = new Health(() => clock.now);
  for (const offer of catalog.offers('a')) {
    if (!providers.includes(offer.provider.name)) continue;
    for (let i = 0; i < 5; i++) health.failed(offer);
  }
  const asked = (offers: readonly Offer[] = plan, preferred = {}) =>
    withProbe(offers, { ...noPreferences, ...preferred }, health).map((one) => one.upstreamModel);
  return { clock, asked };
}

test('of requests with the same plan, one becomes the probe of its first offer', () => {
  const { clock, asked } = sick('north');
  clock.now = 5_000;
  expect(asked()).toEqual(['a@north', 'a@east', 'a@south', ...ofB]);
  expect(asked()).toEqual(['a@east', 'a@south', 'a@north', ...ofB]);
});

test('the next offer, if it is recovering as well, is probed by the next request', () => {
  const { clock, asked } = sick('north', 'east');
  clock.now = 5_000;
  expect([asked()[0], asked()[0], asked()[0]]).toEqual(['a@north', 'a@east', 'a@south']);
});

test('a recovering offer in second place is probed only by a request that asks it first', () => {
  const { clock, asked } = sick('east');
  clock.now = 5_000;
  const [north, east, south] = catalog.offers('a');
  const first = east && north && south ? [east, north, south] : [];
  for (const _ of ['first', 'again']) expect(asked()[0]).toBe('a@north');
  expect([asked(first)[0], asked(first)[0]]).toEqual(['a@east', 'a@north']);
});

test('where models are sorted together, the offers of all models go before it', () => {
  const { clock, asked } = sick('north');
  clock.now = 5_000;
  const sorted = plan.toSorted((a, b) => b.provider.name.localeCompare(a.provider.name)).slice(2);
  const usual = ['a@north', 'b@north', 'a@east', 'b@east'];
  expect(asked(sorted, { route: 'sort' })).toEqual(usual);
  expect(asked(sorted, { route: 'sort' })).toEqual(['b@north', 'a@east', 'b@east', 'a@north']);
});

test('without fallbacks the next offer of its model is asked instead, and no other', () => {
  const { clock, asked } = sick('north', 'east', 'south');
  const preferred = { allowFallbacks: false };
  clock.now = 5_000;
  const askedFor = [asked(plan, preferred), asked(plan, preferred), asked(plan, preferred)];
  expect(askedFor).toEqual([['a@north'], ['a@east'], ['a@south']]);
  expect([asked(plan, preferred), asked([], preferred)]).toEqual([['a@north'], []]);
});

test('a model with one provider is asked there before the next model', () => {
  const { asked } = sick();
  const alone = plan.slice(2);
  expect(asked(alone)).toEqual(['a@south', ...ofB]);
  expect(asked(alone, { allowFallbacks: false })).toEqual(['a@south']);
});

test('where no offer may be probed yet the order stays', () => {
  const { asked } = sick(...names);
  const usual = ['a@north', 'a@east', 'a@south', ...ofB];
  expect(asked()).toEqual(usual);
  expect(asked(plan.slice(0, 1))).toEqual(['a@north']);
  expect(asked([])).toEqual([]);
});
