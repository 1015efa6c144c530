import { describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { parseDocument } from 'yaml';
import { explain, oneOf } from '../../core/schema.ts';
import { tierProblems } from '../model-problems.ts';
import { type ModelConfig, modelSchema, type PricingConfig } from '../model-schema.ts';
import { dialectNames, quirksSchema } from '../provider-schema.ts';
import { httpUrl, priceSource, strictObject } from '../schema-fields.ts';
import { builtinCatalog } from './index.ts';

const text = () => Type.String({ minLength: 1 });
const fileSchema = Type.Object(
  {
    price_source: priceSource(),
    provider: Type.Object(
      {
        name: text(),
        label: text(),
        api_key_env: text(),
        dialect: oneOf(...dialectNames),
        base_url: httpUrl('https://api.example.com/v1'),
        quirks: Type.Optional(quirksSchema),
        price_lists: Type.Optional(strictObject({ litellm: text(), models_dev: text() })),
      },
      { additionalProperties: false },
    ),
    models: Type.Array(modelSchema, { minItems: 1 }),
  },
  { additionalProperties: false },
);
const validator = Compile(fileSchema);
const shape: object = fileSchema;

const names = readdirSync(import.meta.dir).filter((name) => name.endsWith('.yaml'));
const { providers, models } = builtinCatalog;

function modelOf(id: string): ModelConfig {
  const model = models.find((candidate) => candidate.id === id);
  if (!model) throw new Error(`${id} isn't in the catalog`);
  return model;
}

describe('catalog files', () => {
  test.each(names)('%s matches the schema and has no duplicate keys', (name) => {
    const document = parseDocument(readFileSync(join(import.meta.dir, name), 'utf8'), {
      strict: true,
      uniqueKeys: true,
    });
    expect([...document.errors, ...document.warnings].map(String)).toEqual([]);
    const data: unknown = document.toJS();
    const problems = validator.Check(data) ? [] : explain(shape, data);
    expect(problems.map(({ path, message }) => `${name}: ${path} ${message}`)).toEqual([]);
    // The built program contains every file, and the bundler's YAML parser agrees with this one.
    if (!validator.Check(data)) throw new Error(`${name} is invalid, but no problem was reported`);
    const builtIn = providers.find((provider) => provider.name === data.provider.name);
    expect<unknown>(builtIn).toEqual(data.provider);
    for (const model of data.models) expect<unknown>(modelOf(model.id)).toEqual(model);
  });

  test('are named after their provider', () => {
    expect(providers.map(({ name }) => `${name}.yaml`).sort()).toEqual(names.sort());
  });
});

test('every provider reads its key from <NAME>_API_KEY', () => {
  for (const { name, api_key_env } of providers) {
    expect(api_key_env).toBe(`${name.toUpperCase().replaceAll('-', '_')}_API_KEY`);
  }
});

test('every model ID is unique in the catalog', () => {
  const ids = models.map(({ id }) => id);
  expect(ids.filter((id, i) => ids.indexOf(id) !== i)).toEqual([]);
});

test('every endpoint names a provider in the catalog and has a unique priority', () => {
  const known = new Set(providers.map(({ name }) => name));
  for (const { id, endpoints } of models) {
    expect({
      id,
      unknownProviders: endpoints.filter(({ provider }) => !known.has(provider)),
    }).toEqual({
      id,
      unknownProviders: [],
    });
    const ranks = endpoints.map(({ priority = 0 }) => priority);
    expect({ id, ranks }).toEqual({ id, ranks: ranks.map((_, rank) => rank) });
  }
});

/** Each of these sets of prices is sufficient to bill a model. */
function priceSets(model: ModelConfig): (keyof PricingConfig)[][] {
  const features = model.features ?? [];
  if (features.includes('embeddings')) return [['prompt']];
  if (features.includes('transcription')) return [['minute']];
  if (features.includes('speech')) return [['characters'], ['bytes'], ['prompt', 'request']];
  if (model.output_modalities.includes('image')) return [['output_image'], ['completion']];
  return [['prompt', 'completion']];
}

test('every endpoint has the prices that its features need', () => {
  const unpriced = models.flatMap((model) =>
    model.endpoints
      .filter(({ pricing = {} }) =>
        priceSets(model).every((set) => set.some((price) => pricing[price] === undefined)),
      )
      .map(({ provider }) => `${model.id} at ${provider}`),
  );
  expect(unpriced).toEqual([]);
});

test('cached input never costs more than other input', () => {
  for (const { id, endpoints } of models) {
    for (const { pricing = {} } of endpoints) {
      if (pricing.cache_read === undefined) continue;
      expect({ id, costsMore: Number(pricing.cache_read) > Number(pricing.prompt) }).toEqual({
        id,
        costsMore: false,
      });
    }
  }
});

test("Anthropic's cache writes cost 1.25 times the input price for 5 minutes and 2 times for 1 hour", () => {
  const endpoints = models.flatMap((model) => model.endpoints);
  const own = endpoints.filter(({ provider }) => provider === 'anthropic');
  const lists = own.flatMap(({ model, pricing = {} }) =>
    [pricing, ...(pricing.long_prompts ?? [])].map((prices) => ({ model, prices })),
  );
  // 11 models, one of which has a price tier.
  expect(lists).toHaveLength(12);
  for (const { model, prices } of lists) {
    const times = (price: string | undefined) => Number(price) / Number(prices.prompt);
    expect({
      model,
      minutes: times(prices.cache_write).toFixed(4),
      hour: times(prices.cache_write_1h).toFixed(4),
    }).toEqual({ model, minutes: '1.2500', hour: '2.0000' });
  }
});

test('models with price tiers have the published tiers, and other models have none', () => {
  // [above, input, output, cached input, cache writes, 1-hour cache writes], in dollars per million
  // tokens.
  type Step = [above: number, prompt: string, completion: string, ...cache: string[]];
  const grok: Step = [200_000, '4.00', '12.00', '1.00'];
  const table: Record<string, Step> = {
    'google/gemini-3.1-pro-preview': [200_000, '4.00', '18.00'],
    'google/gemini-2.5-pro': [200_000, '2.50', '15.00'],
    'x-ai/grok-4.7': grok,
    'x-ai/grok-4.6': grok,
    'x-ai/grok-4.5': grok,
    'x-ai/grok-4.3': [200_000, '2.50', '5.00', '0.40'],
    'anthropic/claude-haiku-5.5': [100_000, '0.50', '2.50', '0.05', '0.625', '1.00'],
    'openai/gpt-6-astra': [272_000, '20.00', '75.00', '2.00', '25.00'],
    'openai/gpt-6.1-sol': [272_000, '4.00', '15.00', '0.20', '5.00'],
    'openai/gpt-6-luna': [272_000, '0.20', '0.75', '0.02', '0.25'],
    'openai/gpt-5.6-sol': [272_000, '8.00', '30.00', '0.80', '10.00'],
    'openai/gpt-5.4-mini': [272_000, '1.50', '6.75', '0.15'],
  };
  const found = models.flatMap(({ id, endpoints }) =>
    endpoints.flatMap(({ pricing }) =>
      (pricing?.long_prompts ?? []).map((step) => {
        const { above_tokens, prompt, completion, cache_read, cache_write, cache_write_1h } = step;
        const cache = [cache_read, cache_write, cache_write_1h];
        const prices = [above_tokens, prompt, completion, ...cache];
        return [id, prices.filter((price) => price !== undefined)];
      }),
    ),
  );
  expect(Object.fromEntries(found)).toEqual(table);
  expect(found).toHaveLength(Object.keys(table).length);
});

test('models with audio prices have the published prices, and other models have none', () => {
  const endpoints = models.flatMap(({ endpoints: places }) => places);
  const priced = endpoints.filter(({ pricing }) => pricing?.audio !== undefined);
  expect(priced.map(({ model, pricing }) => [model, pricing?.prompt, pricing?.audio])).toEqual([
    ['gemini-2.5-flash', '0.30', '1.00'],
  ]);
});

test('every price tier of the catalog is valid in a configuration file', () => {
  const problems = models.flatMap(({ id, endpoints }) =>
    endpoints.flatMap(({ pricing = {} }) => tierProblems(pricing, id)),
  );
  expect(problems).toEqual([]);
});

test('speech models have the published prices and fallbacks', () => {
  const table: Record<string, [provider: string, model: string, pricing: PricingConfig][]> = {
    'openai/tts-1': [
      ['openai', 'tts-1', { characters: '15.00' }],
      ['siliconflow', 'FunAudioLLM/CosyVoice2-0.5B', { bytes: '7.15' }],
    ],
    'openai/tts-1-hd': [['openai', 'tts-1-hd', { characters: '30.00' }]],
    'openai/mini-tts': [
      ['openai', 'gpt-4o-mini-tts', { prompt: '12.00', completion: '12.00', request: '0.0012' }],
    ],
    'funaudio/cjk-tts-0.5b': [['siliconflow', 'FunAudioLLM/CosyVoice2-0.5B', { bytes: '7.15' }]],
    'fishaudio/multilingual-tts-1.5': [
      ['siliconflow', 'fishaudio/fish-speech-1.5', { bytes: '7.15' }],
    ],
    'indexteam/clone-tts-2': [['siliconflow', 'IndexTeam/IndexTTS-2', { bytes: '7.15' }]],
  };
  const speaking = models.filter(({ features }) => features?.includes('speech'));
  expect(speaking.map(({ id }) => id).sort()).toEqual(Object.keys(table).sort());
  for (const { id, endpoints } of speaking) {
    const found = endpoints.map(({ provider, model, pricing = {} }) => [provider, model, pricing]);
    expect<unknown>({ id, found }).toEqual({ id, found: table[id] });
  }
});

test('first-party speech accepts 4,096 characters and 6 voices, other models 1,000 bytes', () => {
  for (const { id, speech } of models) {
    if (!speech) continue;
    const own = id.startsWith('openai/');
    expect({ id, style: speech.style }).toEqual({ id, style: own ? 'first_party' : 'mapped' });
    expect(own ? speech.input_characters_max : speech.input_bytes_max).toBe(own ? 4096 : 1000);
    if (!own) continue;
    expect(Object.keys(speech.voices ?? {})).toEqual(
      expect.arrayContaining(['alloy', 'echo', 'fable', 'onyx', 'nova', 'shimmer']),
    );
    expect(Object.values(speech.voices ?? {})).toContain(speech.default_voice ?? '');
  }
});

test('transcription models have the published prices and fallbacks', () => {
  const endpointsOf = (id: string) =>
    modelOf(id).endpoints.map(({ provider, model, pricing }) => [provider, model, pricing]);
  expect<unknown>(endpointsOf('openai/stt-1')).toEqual([
    ['openai', 'whisper-1', { minute: '0.006' }],
    ['siliconflow', 'FunAudioLLM/SenseVoiceSmall', { minute: '0.006' }],
  ]);
  expect<unknown>(endpointsOf('funaudio/emotion-stt-small')).toEqual([
    ['siliconflow', 'FunAudioLLM/SenseVoiceSmall', { minute: '0.006' }],
  ]);
});

test('image edits have the published flat prices', () => {
  const edits = models.filter(({ features }) => features?.includes('image_edit'));
  expect(edits.filter((model) => !model.input_modalities.includes('image'))).toEqual([]);
  const flat = edits.flatMap(({ endpoints }) => endpoints.map((at) => at.pricing?.output_image));
  expect(flat.filter((price) => price !== undefined).sort()).toEqual([
    '0.015',
    '0.04',
    '0.04',
    '0.08',
  ]);
});

test('a square image at low quality costs about a cent with GPT Image 1 and 1.5', () => {
  // OpenAI's image guide: 272 output tokens.
  const cost = (id: string) => (272 * Number(modelOf(id).endpoints[0]?.pricing?.completion)) / 1e6;
  expect(cost('openai/gpt-image-1').toFixed(3)).toBe('0.011');
  expect(cost('openai/gpt-image-1.5').toFixed(3)).toBe('0.009');
});

test('only one model has image limits', () => {
  const limited = models.filter(({ image_limits }) => image_limits);
  expect(limited.map(({ id, image_limits }) => ({ id, image_limits }))).toEqual([
    { id: 'anthropic/claude-opus-4.7', image_limits: { long_edge_px: 2576, megapixels: 3.75 } },
  ]);
});

test('a reasoning endpoint maps all effort levels or none', () => {
  for (const model of models) {
    if (model.thinking !== 'effort' && model.thinking !== 'adaptive') continue;
    for (const { provider, quirks } of model.endpoints) {
      const vendor = providers.find(({ name }) => name === provider);
      const efforts = quirks?.efforts ?? vendor?.quirks?.efforts;
      const levels = Object.keys(efforts ?? { missing: '' }).filter((level) => level !== 'none');
      expect({ id: model.id, provider, levels }).toEqual({
        id: model.id,
        provider,
        levels: levels.length === 0 ? [] : ['minimal', 'low', 'medium', 'high', 'xhigh', 'max'],
      });
    }
  }
});

test('every provider serves at least one model', () => {
  const offers = (provider: string) =>
    models.filter(({ endpoints }) => endpoints.some((at) => at.provider === provider)).length;
  const least = {
    openai: 12,
    anthropic: 8,
    gemini: 8,
    mistral: 6,
    siliconflow: 8,
    together: 6,
    groq: 4,
    cohere: 3,
    xai: 3,
    deepseek: 2,
  };
  for (const [provider, count] of Object.entries(least)) {
    expect({ provider, enough: offers(provider) >= count }).toEqual({ provider, enough: true });
  }
});
