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
