import { describe, expect, test } from 'bun:test';
import { builtinCatalog } from './catalog/index.ts';
import { loadConfig } from './load.ts';
import { ageInDays, listPrices } from './prices.ts';

const now = Date.UTC(2026, 10, 20);

describe('listPrices', () => {
  const config = loadConfig({}, {}, undefined, { source: 'built-in defaults', data: {} });
  const listed = listPrices(config, now);

  test('names the source of every price of the catalog, and what its date is the date of', () => {
    const endpoints = builtinCatalog.models.flatMap((model) => model.endpoints);
    expect(listed).toHaveLength(endpoints.length);
    expect(listed.filter(({ source }) => !source?.name)).toEqual([]);
    const sourceOf = (name: string) => listed.find((price) => price.name === name)?.source;
    expect(sourceOf('x-ai/grok-4.7@xai')).toEqual({
      name: 'xAI model and pricing pages as recorded by models.dev, August and September 2026',
      date: '2026-08',
      dated: 'catalog',
    });
    expect(sourceOf('openai/whisper-large-v3@groq')).toEqual({
      name: 'LiteLLM and OpenRouter',
      date: '2026-05',
      dated: 'price',
    });
  });
});

test.each([
  [{ name: 'a', date: '2026-11-18' }, 2],
  [{ name: 'a', date: '2026-10' }, 50],
  [{ name: 'a', date: '2027-01' }, 0],
  [{ name: 'a' }, null],
])('the age of %j is %j days', (source, age) => {
  expect(ageInDays(source, now)).toBe(age);
});

describe('a file with prices', () => {
  const price = { model: 'openai/gpt-5', provider: 'openai', pricing: { prompt: '1' } };
  const load = (data: object) => loadConfig({}, {}, undefined, { source: 'tollgate.yaml', data });

  test.each(['2026-02-30T00:00:00Z', '2026-13-01T00:00:00Z'])(
    'is rejected if a price starts at %s, which does not exist',
    (from) => {
      const message = `prices[0].from must be an existing time, not "${from}"`;
      expect(() => load({ prices: [{ ...price, from }] })).toThrow(message);
    },
  );

  test('is rejected if two prices of a model start at the same time', () => {
    const starts = ['2026-12-01T00:00:00Z', '2026-12-01T01:00:00+01:00'];
    const prices = starts.map((from) => ({ ...price, from }));
    expect(() => load({ prices })).toThrow('prices[1].from is the start of an earlier entry');
  });

  test('may have a plan whose tenants pay nothing', () => {
    const { plans } = load({ plans: { free: { factor_basis_points: 0 }, list: {} } });
    const factors = [...plans.values()].map(({ factorBasisPoints }) => factorBasisPoints);
    expect(factors).toEqual([0, 10_000]);
  });
});
