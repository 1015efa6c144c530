import { describe, expect, test } from 'bun:test';
import type { PriceName } from '../../money/price/price-classes.ts';
import { loadConfig } from '../load.ts';
import { type CheckOptions, compareWithList } from './compare.ts';
import { readPriceListFile } from './price-list-file.ts';

const now = Date.UTC(2026, 10, 20);
const pricing = {
  ...{ prompt: '2.50', completion: '10', cache_read: '0.25' },
  long_prompts: [{ above_tokens: 200_000, prompt: '5' }],
};
const chat = {
  ...{ id: 'acme/chat', name: 'Chat', context_length: 400_000, max_completion_tokens: 128_000 },
  ...{ input_modalities: ['text', 'image'], output_modalities: ['text'], features: ['tools'] },
  endpoints: [{ provider: 'acme', model: 'chat-1', pricing }],
};
const other = (id: string, model: string, features: string[], prices: object) => ({
  ...{ id, name: id, input_modalities: ['text'], output_modalities: ['text'], features },
  endpoints: [{ provider: 'acme', model, pricing: prices }],
});
const data = {
  catalogue: 'none',
  providers: {
    acme: { dialect: 'openai', base_url: 'http://127.0.0.1:1', api_key: null },
    solo: { dialect: 'openai', base_url: 'http://127.0.0.1:1', api_key: null },
  },
  models: [
    chat,
    other('acme/gone', 'gone-1', [], { prompt: '1', completion: '1' }),
    other('acme/embed', 'embed-1', ['embeddings'], { prompt: '0.02' }),
    other('acme/hear', 'hear-1', ['transcription'], { minute: '0.006' }),
    other('acme/draw', 'draw-1', ['image_generation'], { prompt: '8', completion: '30' }),
    {
      ...other('solo/own', 'own-1', [], {}),
      endpoints: [{ provider: 'solo', model: 'own-1', pricing: { prompt: '1', completion: '1' } }],
    },
  ],
};
const config = loadConfig({}, {}, undefined, { source: 'test.yaml', data });

/** In the format of LiteLLM, whose entries have a key that may start with the provider. */
const liteLlm = (changes: object) => ({
  sample_spec: { litellm_provider: 'one of https://docs.litellm.ai/docs/providers' },
  'acme/chat-1': {
    ...{ litellm_provider: 'acme', mode: 'chat', max_input_tokens: 400_000 },
    ...{ max_output_tokens: 128_000, max_tokens: 128_000, supports_function_calling: true },
    ...{ input_cost_per_token: 2.5e-6, output_cost_per_token: 1e-5, supports_vision: true },
    ...{ cache_read_input_token_cost: 2.5e-7, input_cost_per_token_above_200k_tokens: 5e-6 },
    ...{ input_cost_per_token_batches: 1.25e-6, input_cost_per_image: 0.001 },
    ...changes,
  },
  'embed-1': { litellm_provider: 'acme', mode: 'embedding', input_cost_per_token: 2e-8 },
  'acme/hear-1': {
    ...{ litellm_provider: 'acme', mode: 'audio_transcription' },
    input_cost_per_second: 0.0001,
  },
  'acme/new-1': {
    ...{ litellm_provider: 'acme', max_input_tokens: 8_192 },
    ...{ input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 },
  },
});
/** In the format of models.dev. */
const modelsDev = (cost: object, model: object = {}) => ({
  acme: {
    ...{ id: 'acme', env: ['ACME_API_KEY'], npm: '@ai-sdk/openai', name: 'Acme' },
    models: {
      'chat-1': {
        ...{ id: 'chat-1', name: 'Chat', attachment: true, reasoning: false, tool_call: true },
        ...{ temperature: true, release_date: '2026-01-01', last_updated: '2026-01-01' },
        modalities: { input: ['text', 'image'], output: ['text'] },
        limit: { context: 400_000, output: 128_000 },
        cost: {
          ...{ input: 2.5, output: 10, cache_read: 0.25 },
          tiers: [{ input: 5, output: 10, cache_read: 0.25, tier: { type: 'context', size: 2e5 } }],
          context_over_200k: { input: 5, output: 10, cache_read: 0.25 },
          ...cost,
        },
        ...model,
      },
    },
  },
});

function compare(list: object, options: Partial<CheckOptions> = {}) {
  const defaults = { now, names: new Map(), isChecked: () => true };
  const read = readPriceListFile(JSON.stringify(list));
  return compareWithList(config, read, { ...defaults, ...options });
}
const chatIn = (list: object) =>
  compare(list).differences.find(({ model }) => model === 'acme/chat');

describe('a price list', () => {
  test.each([
    ['litellm', liteLlm({})],
    ['models_dev', modelsDev({})],
  ])('of the format %s with the same prices has no differences', (format, list) => {
    const result = compare(list);
    expect(result).toMatchObject({ format, differences: [], unlistedProviders: ['solo'] });
    expect(result.unlisted.map(({ model }) => model)).toContain('acme/gone');
  });

  test('is compared with the prices of image tokens for models that answer with images', () => {
    const text = { litellm_provider: 'acme', input_cost_per_token: 5e-6 };
    const image = { input_cost_per_image_token: 1e-5, output_cost_per_image_token: 3e-5 };
    const drawIn = (entry: object) =>
      compare({ 'acme/draw-1': entry }).differences.flatMap(({ prices }) => prices);
    expect(drawIn(text)).toEqual([]);
    expect(drawIn({ ...text, ...image })).toMatchObject([
      { name: 'prompt', before: '8', after: '10' },
    ]);
  });

  test('shows models that you have not configured', () => {
    const [added, ...more] = compare(liteLlm({})).added;
    expect([added, more]).toEqual([
      {
        ...{ provider: 'acme', upstreamModel: 'new-1', contextLength: 8_192 },
        prices: { prompt: '1', completion: '2' },
      },
      [],
    ]);
  });

  test('is searched for the names that it has for providers', () => {
    const list = modelsDev({ input: 9 });
    const renamed = { vendor: list.acme };
    expect(compare(renamed).unlistedProviders).toEqual(['acme', 'solo']);
    const { differences } = compare(renamed, { names: new Map([['acme', 'vendor']]) });
    expect(differences.map(({ model }) => model)).toEqual(['acme/chat']);
  });

  const change = (name: PriceName, before: string, after: string, aboveTokens: number | null) => ({
    ...{ name, aboveTokens, before, after },
    isLarge: false,
  });
  test.each([
    ['input', liteLlm({ input_cost_per_token: 2.75e-6 }), change('prompt', '2.50', '2.75', null)],
    [
      'a tier',
      liteLlm({ input_cost_per_token_above_200k_tokens: 6e-6 }),
      change('prompt', '5', '6', 200_000),
    ],
    [
      'a new tier price',
      liteLlm({ output_cost_per_token_above_200k_tokens: 1.5e-5 }),
      change('completion', '10', '15', 200_000),
    ],
    [
      '1-hour cache writes, which cost as much as input before',
      liteLlm({ cache_creation_input_token_cost_above_1hr: 5e-6 }),
      change('cache_write_1h', '2.50', '5', null),
    ],
    ['cached input', modelsDev({ cache_read: 0.5 }), change('cache_read', '0.25', '0.5', null)],
    [
      'the tier of older lists',
      modelsDev({ tiers: undefined, context_over_200k: { input: 7, output: 10 } }),
      change('prompt', '5', '7', 200_000),
    ],
  ])('shows another price of %s', (_, list, expected) => {
    expect(chatIn(list)?.prices).toContainEqual(expected);
  });

  test('replaces only the prices that it has', () => {
    const list = liteLlm({ input_cost_per_token: 3e-6, cache_read_input_token_cost: undefined });
    expect(chatIn(list)).toMatchObject({
      lacking: ['cache_read'],
      pricing: { ...pricing, prompt: '3', completion: '10' },
    });
  });

  test('replaces a limit of a tier that has moved', () => {
    const tiers = [{ input: 5, output: 20, tier: { type: 'context', size: 272_000 } }];
    const { pricing: next, prices } = chatIn(modelsDev({ tiers })) ?? {};
    expect(next?.long_prompts).toEqual([{ above_tokens: 272_000, prompt: '5', completion: '20' }]);
    expect(prices?.map(({ name, aboveTokens, after }) => [name, aboveTokens, after])).toEqual([
      ['prompt', 200_000, '2.5'],
      ['completion', 272_000, '20'],
    ]);
  });

  test.each([
    [2.5e-3, true],
    [2.5e-5, true],
    [2.4e-5, false],
    [2.5e-7, true],
    [0, true],
  ])('marks a change of input from 2.5e-6 to %d as large: %j', (input, isLarge) => {
    const [found] = chatIn(liteLlm({ input_cost_per_token: input }))?.prices ?? [];
    expect(found?.isLarge).toBe(isLarge);
  });

  test.each([
    [{ input_cost_per_token: -1 }, 'input_cost_per_token is negative: "-1"'],
    [{ output_cost_per_token: 'free' }, 'output_cost_per_token is not a number: "free"'],
  ])('with the price %j has a problem', (prices, problem) => {
    expect(chatIn(liteLlm(prices))?.problems).toEqual([problem]);
  });

  test('shows limits and features', () => {
    const limit = { context: 1_000_000, output: 64_000 };
    const list = modelsDev({}, { limit, tool_call: false, reasoning: true });
    expect(chatIn(list)).toMatchObject({
      prices: [],
      limits: [
        { field: 'context_length', before: 400_000, after: 1_000_000 },
        { field: 'max_completion_tokens', before: 128_000, after: 64_000 },
      ],
      features: [
        { feature: 'tools', before: true, after: false },
        { feature: 'reasoning', before: false, after: true },
      ],
    });
  });

  test('shows prices that are not charged separately as notes', () => {
    const list = modelsDev({ input: 3, reasoning: 12 });
    expect(chatIn(list)?.notes).toEqual([
      'reasoning costs 12 in the list, and is charged as output',
    ]);
  });
});

test.each([
  ['<!doctype html><html></html>', 'It is a web page, not JSON.'],
  ['{"a": ', "It isn't valid JSON."],
  ['['.repeat(1_000_000), "It isn't valid JSON."],
  [`${'['.repeat(100_000)}${']'.repeat(100_000)}`, "It isn't"],
  ['[]', "It isn't a price list that Tollgate knows"],
  ['{}', "It isn't a price list that Tollgate knows"],
  ['{"data": [{"id": "a", "pricing": {}}]}', "It isn't a price list that Tollgate knows"],
])('a file with other content is rejected: %#', (text, message) => {
  expect(() => readPriceListFile(text)).toThrow(message);
});
