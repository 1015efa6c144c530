/**
 * Charges for audio in prompts. At OpenAI, a text token costs 2.5 credits, an audio token 40, a
 * cached token 1.25, and an output token 10. At Google, they cost 0.3, 1, 0.03, and 2.5.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { chatAnswer, rawUsage, replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { discrepancies } from '../support/ledger-check.ts';
import {
  chargeFor,
  expectHold,
  expectListedPrice,
  expectOwnAccountFee,
  receiptOf,
} from '../support/money/price-class.ts';
import { answerRound, searchRound, startSearchGateway } from '../support/search-gateway.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

const textPricing = { prompt: '2.5', completion: '10', cache_read: '1.25' };
const pricing = { ...textPricing, audio: '40.00' };
const tier = { above_tokens: 64, prompt: '5', audio: '80.00' };
const google = { prompt: '0.30', completion: '2.50', cache_read: '0.03', audio: '1.00' };

beforeAll(async () => {
  const api_key = 'sk-upstream-012345';
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
      chatModel('acme/one-price', at(textPricing)),
      chatModel('acme/stepped', at({ ...pricing, long_prompts: [tier] })),
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

const audioPart = { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } };
const chatBody = (model: string, more: object = {}) => ({
  model,
  max_tokens: 16,
  messages: [{ role: 'user', content: [{ type: 'text', text: 'What is it?' }, audioPart] }],
  ...more,
});

/** Returns a usage of 64 input tokens and 9 output tokens. */
const usageWith = (details: object) => ({
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
  // 900 of 1,800 audio tokens are cached: 76 × 0.3 + 900 + 1,024 × 0.03 + 5 × 2.5 = 966.02
  ['gemini/cached-audio-stream.sse', 'acme/google', 967],
])('charges for %s at %s: %d credits', async (file, model, credits) => {
  script(file);
  expect(await chargeFor(gateway, chatBody(model, { stream: file.endsWith('.sse') }))).toBe(
    credits,
  );
});

describe.each([
  ['non-streaming chat', {}],
  ['streaming chat', { stream: true }],
])('charge of a %s', (_, fields) => {
  test.each<[string, string, object, number]>([
    // 60 × 40 + 4 × 2.5 + 90
    ['audio', 'acme/hearing', { audio_tokens: 60 }, 2_500],
    // 20 of 60 audio tokens are cached: 40 × 40 + 24 × 1.25 + 90.
    [
      'cached audio',
      'acme/hearing',
      { audio_tokens: 60, cached_tokens: 24, cached_tokens_details: { audio_tokens: 20 } },
      1_720,
    ],
    // 64 × 2.5 + 90
    ['no audio', 'acme/hearing', { audio_tokens: 0 }, 250],
    ['more audio tokens than prompt tokens', 'acme/hearing', { audio_tokens: 65 }, 250],
    ['a count of audio tokens that is not a number', 'acme/hearing', { audio_tokens: '60' }, 250],
    ['a negative count of audio tokens', 'acme/hearing', { audio_tokens: -60 }, 250],
    // A prompt of 64 tokens isn't above 64 tokens.
    ["a prompt at the tier's limit", 'acme/stepped', { audio_tokens: 60 }, 2_500],
  ])('covers %s', async (_name, model, details, credits) => {
    upstream.script('hearing', rawUsage(usageWith(details), chatAnswer('hi')));
    expect(await chargeFor(gateway, chatBody(model, fields))).toBe(credits);
  });

  test("covers a prompt above the tier's limit", async () => {
    const usage = { ...usageWith({ audio_tokens: 60 }), prompt_tokens: 65, total_tokens: 74 };
    upstream.script('hearing', rawUsage(usage, chatAnswer('hi')));
    // 60 × 80 + 5 × 5 + 90
    expect(await chargeFor(gateway, chatBody('acme/stepped', fields))).toBe(4_915);
  });
});

describe('reports of audio tokens', () => {
  test('OpenAI clients get the audio token count of a Google model', async () => {
    script('gemini/cached-audio-stream.sse');
    const streaming = { stream: true, stream_options: { include_usage: true } };
    const { text } = await gateway.post(chatBody('acme/google', streaming));
    expect(text).toContain('"prompt_tokens":2000');
    expect(text).toContain('"prompt_tokens_details":{"cached_tokens":1024,"audio_tokens":900}');
    script('gemini/audio-input.json');
    expect((await gateway.post(chatBody('acme/google'))).json.usage).toMatchObject({
      prompt_tokens: 510,
      prompt_tokens_details: { cached_tokens: 0, audio_tokens: 500 },
      total_tokens: 514,
      cost: 513,
    });
  });

  test('a receipt has a line for audio, and its lines add up', async () => {
    script('written/openai-audio-input-stream.sse');
    const { requestId } = await gateway.post(chatBody('acme/hearing', { stream: true }));
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
    const unpriced = await gateway.post(chatBody('acme/one-price', { stream: true }));
    const { lines } = await receiptOf(gateway, unpriced.requestId);
    expect(lines).toContainEqual({
      price: 'audio',
      quantity: 44,
      per: 1_000_000,
      usd: '2.5',
      credits: '110',
    });
  });

  test('the BYOK fee is a share of the list price with audio', async () => {
    script('openai/chat-audio-input.json');
    await expectOwnAccountFee(gateway, 190, { provider: 'openai', body: chatBody('acme/hearing') });
  });

  test('model listings report the audio price', async () => {
    await expectListedPrice(gateway, 'acme/stepped', { pricing, long_prompts: [tier] });
  });
});

/** Returns a body of 600 bytes, which are at most 200 tokens. */
function bytes600(model: string, parts: readonly object[]): string {
  const body = (text: string) => {
    const content = [{ type: 'text', text }, ...parts];
    return JSON.stringify(chatBody(model, { messages: [{ role: 'user', content }] }));
  };
  return body('x'.repeat(600 - body('').length));
}

describe('hold', () => {
  test.each<[string, string, readonly object[], number]>([
    // If all the bytes were audio, they would be 20 tokens: 20 × 40 + 16 × 10.
    ['with audio', 'acme/hearing', [audioPart], 960],
    // 200 × 2.5 + 16 × 10
    ['without audio', 'acme/hearing', [], 660],
    ['with audio that has no separate price', 'acme/one-price', [audioPart], 660],
  ])('covers a prompt %s', async (_name, model, parts, credits) => {
    upstream.script('hearing', chatAnswer('hi', { usage: { prompt: 1, completion: 1 } }));
    await expectHold(gateway, credits, bytes600(model, parts));
  });
});

// Each round costs 442 credits: 4 × 1 + 60 × 7 of input and 9 × 2 of output.
test('a web search charges the audio tokens of all rounds', async () => {
  const rig = await startSearchGateway({}, { audio: '7' });
  rig.reset();
  const rounds = [searchRound('weather today'), answerRound('It rained.')];
  rig.upstream.script(
    'chat',
    rounds.map((round) => rawUsage(usageWith({ audio_tokens: 60 }), round)),
  );
  const tools = [{ type: 'web_search' }];
  const answer = await rig.gateway.post(chatBody('test/chat', { tools }));
  expect(answer.json.usage).toMatchObject({
    prompt_tokens: 128,
    prompt_tokens_details: { audio_tokens: 120 },
  });
  expect((await rig.bill(answer)).model).toBe(884);
  await rig.stop();
});
