/**
 * Sounds in a prompt, on a real gateway. At OpenAI a token of words costs 2.5 credits, one of
 * sounds 40, a cached one 1.25, one out 10; at Google 0.3, 1, 0.03 and 2.5.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { discrepancies } from '../support/book-check.ts';
import { replay, say, startFakeUpstream, weirdUsage } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import {
  chargeFor,
  expectHold,
  expectOwnAccountFee,
  expectPriceTold,
  receiptOf,
} from '../support/money/price-class.ts';
import { answerIt, searchFor, startSearchRig } from '../support/search-rig.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

const words = { prompt: '2.5', completion: '10', cache_read: '1.25' };
const pricing = { ...words, audio: '40.00' };
const step = { above_tokens: 64, prompt: '5', audio: '80.00' };
const google = { prompt: '0.30', completion: '2.50', cache_read: '0.03', audio: '1.00' };

beforeAll(async () => {
  const api_key = 'sk-theirs-012345';
  const at = (prices: object, provider = 'openai') => [
    { provider, model: 'hearing', pricing: prices },
  ];
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    billing: { byok_fee_basis_points: 1_000 },
    providers: {
      openai: { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key },
      google: { dialect: 'gemini', base_url: `${upstream.url}/v1beta`, api_key },
    },
    models: [
      chatModel('acme/hearing', at(pricing)),
      chatModel('acme/one-price', at(words)),
      chatModel('acme/stepped', at({ ...pricing, long_prompts: [step] })),
      chatModel('acme/google', at(google, 'google')),
    ],
  });
});
afterAll(async () => {
  expect(await discrepancies(gateway.store.database)).toEqual([]);
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const sound = { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } };
const ask = (model: string, more: object = {}) => ({
  model,
  max_tokens: 16,
  messages: [{ role: 'user', content: [{ type: 'text', text: 'What is it?' }, sound] }],
  ...more,
});

/** 64 tokens in and 9 out. */
const counts = (details: object) => ({
  prompt_tokens: 64,
  completion_tokens: 9,
  total_tokens: 73,
  prompt_tokens_details: details,
});

function script(file: string): void {
  const contentType = file.endsWith('.sse') ? 'text/event-stream' : 'application/json';
  const bytes = readFileSync(new URL(`../../fixtures/${file}`, import.meta.url));
  upstream.script('hearing', replay(bytes, { contentType }));
}

test.each([
  // 20 × 2.5 + 44 × 40 + 9 × 10
  ['openai/chat-audio-input.json', 'acme/hearing', 1_900],
  ['openai/chat-audio-input.json', 'acme/one-price', 64 * 2.5 + 90],
  // 4 × 2.5 + 44 × 40 + 16 × 1.25 + 9 × 10
  ['written/openai-audio-input-stream.sse', 'acme/hearing', 1_880],
  // 10 × 0.3 + 500 + 4 × 2.5
  ['gemini/audio-input.json', 'acme/google', 513],
  // 900 of 1,800 sounds are cached: 76 × 0.3 + 900 + 1,024 × 0.03 + 5 × 2.5 = 966.02
  ['gemini/cached-audio-stream.sse', 'acme/google', 967],
])('%s costs at %s %d', async (file, model, credits) => {
  script(file);
  expect(await chargeFor(gateway, ask(model, { stream: file.endsWith('.sse') }))).toBe(credits);
});

describe.each([
  ['a chat', {}],
  ['a streamed chat', { stream: true }],
])('the charge for %s', (_, fields) => {
  test.each<[string, string, object, number]>([
    // 60 × 40 + 4 × 2.5 + 90
    ['sounds', 'acme/hearing', { audio_tokens: 60 }, 2_500],
    // 20 of 60 sounds are cached: 40 × 40 + 24 × 1.25 + 90.
    [
      'cached sounds',
      'acme/hearing',
      { audio_tokens: 60, cached_tokens: 24, cached_tokens_details: { audio_tokens: 20 } },
      1_720,
    ],
    // 64 × 2.5 + 90
    ['no sounds', 'acme/hearing', { audio_tokens: 0 }, 250],
    ['more sounds than prompt', 'acme/hearing', { audio_tokens: 65 }, 250],
    ['sounds that are no number', 'acme/hearing', { audio_tokens: '60' }, 250],
    ['fewer sounds than none', 'acme/hearing', { audio_tokens: -60 }, 250],
    // A prompt of 64 tokens is not above them.
    ['a short prompt', 'acme/stepped', { audio_tokens: 60 }, 2_500],
  ])('%s', async (_name, model, details, credits) => {
    upstream.script('hearing', weirdUsage(counts(details), say('hi')));
    expect(await chargeFor(gateway, ask(model, fields))).toBe(credits);
  });

  test('a long prompt', async () => {
    const usage = { ...counts({ audio_tokens: 60 }), prompt_tokens: 65, total_tokens: 74 };
    upstream.script('hearing', weirdUsage(usage, say('hi')));
    // 60 × 80 + 5 × 5 + 90
    expect(await chargeFor(gateway, ask('acme/stepped', fields))).toBe(4_915);
  });
});

describe('what clients are told', () => {
  test('those of OpenAI hear how much of the prompt was sounds, from Google too', async () => {
    script('gemini/cached-audio-stream.sse');
    const told = { stream: true, stream_options: { include_usage: true } };
    const { text } = await gateway.post(ask('acme/google', told));
    expect(text).toContain('"prompt_tokens":2000');
    expect(text).toContain('"prompt_tokens_details":{"cached_tokens":1024,"audio_tokens":900}');
    script('gemini/audio-input.json');
    expect((await gateway.post(ask('acme/google'))).json.usage).toMatchObject({
      prompt_tokens: 510,
      prompt_tokens_details: { cached_tokens: 0, audio_tokens: 500 },
      total_tokens: 514,
      cost: 513,
    });
  });

  test('the receipt has a line for it, and lines that add up', async () => {
    script('written/openai-audio-input-stream.sse');
    const { requestId } = await gateway.post(ask('acme/hearing', { stream: true }));
    expect(await receiptOf(gateway, requestId)).toMatchObject({
      tokens: { input: 4, audio: 44, cache_read: 16, prompt: 64, completion: 9, total: 73 },
      prices: pricing,
      lines: [
        { price: 'prompt', quantity: 4, usd: '2.5', credits: '10' },
        { price: 'audio', quantity: 44, usd: '40.00', credits: '1760' },
        { price: 'cache_read', quantity: 16, usd: '1.25', credits: '20' },
        { price: 'completion', quantity: 9, usd: '10', credits: '90' },
      ],
      cost: 1_880,
    });
    const unpriced = await gateway.post(ask('acme/one-price', { stream: true }));
    const { lines } = await receiptOf(gateway, unpriced.requestId);
    expect(lines).toContainEqual({
      price: 'audio',
      quantity: 44,
      per: 1_000_000,
      usd: '2.5',
      credits: '110',
    });
  });

  test('the fee of an own account is a share of it', async () => {
    script('openai/chat-audio-input.json');
    await expectOwnAccountFee(gateway, 190, { provider: 'openai', body: ask('acme/hearing') });
  });

  test('each place tells its price, and the model list keeps its four', async () => {
    await expectPriceTold(gateway, 'acme/stepped', { pricing, long_prompts: [step] });
  });
});

/** 600 bytes, so 200 tokens at most. */
function bytes600(model: string, parts: readonly object[]): string {
  const body = (text: string) => {
    const content = [{ type: 'text', text }, ...parts];
    return JSON.stringify(ask(model, { messages: [{ role: 'user', content }] }));
  };
  return body('x'.repeat(600 - body('').length));
}

describe('the hold', () => {
  test.each<[string, string, readonly object[], number]>([
    // If all of it were sounds, they would be 20 tokens: 20 × 40 + 16 × 10.
    ['with sounds', 'acme/hearing', [sound], 960],
    // 200 × 2.5 + 16 × 10
    ['without any', 'acme/hearing', [], 660],
    ['with sounds at no price of their own', 'acme/one-price', [sound], 660],
  ])('for a prompt %s', async (_name, model, parts, credits) => {
    upstream.script('hearing', say('hi', { usage: { prompt: 1, completion: 1 } }));
    await expectHold(gateway, credits, bytes600(model, parts));
  });
});

/** Rounds of 4 × 1 + 60 × 7 in and 9 × 2 out: 442 credits each. */
test('the rounds of a search are charged together', async () => {
  const rig = await startSearchRig({}, { audio: '7' });
  rig.reset();
  const rounds = [searchFor('weather today'), answerIt('It rained.')];
  rig.upstream.script(
    'chat',
    rounds.map((round) => weirdUsage(counts({ audio_tokens: 60 }), round)),
  );
  const tools = [{ type: 'web_search' }];
  const answer = await rig.gateway.post(ask('test/chat', { tools }));
  expect(answer.json.usage).toMatchObject({
    prompt_tokens: 128,
    prompt_tokens_details: { audio_tokens: 120 },
  });
  expect((await rig.bill(answer)).model).toBe(884);
  await rig.stop();
});
