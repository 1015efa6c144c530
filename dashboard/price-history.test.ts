import { expect, test } from 'bun:test';
import { changeText, historiesOf, pricingProblems } from './price-history.ts';
import type { Price } from './shapes.ts';

const price = (from: string | null, state: Price['state'], prompt: string) =>
  ({
    model: 'acme/chat',
    provider: 'acme',
    upstream_model: 'chat',
    from,
    state,
    pricing: { prompt },
  }) as Price;

test('a history has its prices in order of time, the one in force, and the next one', () => {
  const past = price(null, 'past', '1');
  const current = price('2026-01-01T00:00:00.000Z', 'in_force', '2');
  const next = price('2099-01-01T00:00:00.000Z', 'scheduled', '3');
  const later = price('2100-01-01T00:00:00.000Z', 'scheduled', '4');
  expect(historiesOf([later, next, past, current])).toMatchObject([
    {
      name: 'acme/chat@acme',
      upstreamModel: undefined,
      prices: [past, current, next, later],
      current,
      next,
    },
  ]);
});

test('the endpoints that a model has at one provider have a history each', () => {
  const first = price(null, 'in_force', '1');
  const second = { ...first, upstream_model: 'other' };
  expect(historiesOf([first, second]).map(({ name }) => name)).toEqual([
    'acme/chat@acme/chat',
    'acme/chat@acme/other',
  ]);
});

test.each([
  ['1', '1.0', undefined],
  ['1', '1.5', '+50%'],
  ['3', '2.9', '−3.3%'],
  ['0', '1', 'no longer free'],
  [undefined, '1', 'new'],
  ['1', undefined, 'removed'],
])('a change of a price from %p to %p is shown as %p', (before, after, text) => {
  expect(changeText(before, after)).toBe(text);
});

test('a price with anything but digits and a decimal point is a problem of its field', () => {
  const pricing = {
    prompt: '0.000000001',
    completion: '0,5',
    cache_read: '1e-3',
    long_prompts: [{ above_tokens: 0, prompt: '2', completion: '-1' }],
  };
  expect([...pricingProblems(pricing).keys()]).toEqual([
    'pricing.completion',
    'pricing.cache_read',
    'pricing.long_prompts[0].above_tokens',
    'pricing.long_prompts[0].completion',
  ]);
});
