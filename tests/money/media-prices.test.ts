/** Charges for media models of the built-in catalog, computed by hand. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { wavFile } from '../support/audio-files.ts';
import { json, startFakeUpstream } from '../support/fake-upstream.ts';
import { opaquePng } from '../support/images.ts';
import { InProcessGateway, readReply } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const at = (base: string) => ({
    base_url: upstream.url + base,
    api_key: 'sk-upstream-0123456789',
  });
  gateway = await InProcessGateway.start({
    ...{ catalogue: 'builtin' },
    providers: {
      openai: at('/v1'),
      mistral: at('/v1'),
      siliconflow: at('/v1'),
      cohere: at('/v2'),
      gemini: at('/v1beta'),
    },
    models: [],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
afterEach(() => upstream.reset());

const chargeOf = async (requestId: string) => (await gateway.record(requestId)).charges.modelCharge;

describe('charge of an image edit', () => {
  const png = Buffer.from(opaquePng(1, 1)).toString('base64');

  async function edit(model: string): Promise<number> {
    const form = new FormData();
    form.append('model', model);
    form.append('prompt', '把天空变成绿色');
    form.append('image', new File([opaquePng(2, 2) as Uint8Array<ArrayBuffer>], 'a.png'));
    const headers = { authorization: `Bearer ${gateway.keys.routing}` };
    const init = { method: 'POST', headers, body: form };
    const reply = await readReply(await fetch(`${gateway.url}/v1/images/edits`, init));
    expect([model, reply.status]).toEqual([model, 200]);
    return chargeOf(reply.requestId);
  }

  // 0.015, 0.04, 0.08, and 0.04 dollars.
  test.each([
    ['black-forest-labs/flux-kontext-dev', 15_000],
    ['black-forest-labs/flux-kontext-pro', 40_000],
    ['black-forest-labs/flux-kontext-max', 80_000],
    ['qwen/qwen-image-edit', 40_000],
  ])('is the price per image for %s: %i credits', async (model, credits) => {
    upstream.script('*', json(200, { images: [{ b64_json: png }], timings: { inference: 9 } }));
    expect(await edit(model)).toBe(credits);
  });

  test.each([
    // 350 × 8 + 196 × 30
    ['openai/gpt-image-2', 350, 196, 2_800 + 5_880],
    ['openai/gpt-image-2.5-flare', 350, 196, 2_800 + 5_880],
    ['openai/gpt-image-2.5-sunburst', 350, 196, 2_800 + 5_880],
    ['openai/gpt-image-2.6-flare', 350, 196, 2_800 + 5_880],
    ['openai/gpt-image-2.6-sunburst', 350, 196, 2_800 + 5_880],
    // 350 × 8 + 272 × 32
    ['openai/gpt-image-1.5', 350, 272, 2_800 + 8_704],
    // 101 × 10 + 272 × 40
    ['openai/gpt-image-1', 101, 272, 1_010 + 10_880],
  ])(
    'is calculated from tokens for %s: %i input, %i output',
    async (model, input, output, credits) => {
      const usage = { input_tokens: input, output_tokens: output, total_tokens: input + output };
      upstream.script('*', json(200, { data: [{ b64_json: png }], usage }));
      expect(await edit(model)).toBe(credits);
    },
  );

  test.each([
    // The estimate of 21 bytes is 6 tokens. Of the output, it is 1,056 tokens.
    ['0 input tokens', { input_tokens: 0, output_tokens: 100 }, 6 * 8 + 100 * 30],
    ['0 output tokens', { input_tokens: 350, output_tokens: 0 }, 350 * 8 + 1_056 * 30],
  ])('is partly an estimate if the provider reports %s', async (_, usage, credits) => {
    upstream.script('*', json(200, { data: [{ b64_json: png }], usage }));
    expect(await edit('openai/gpt-image-2')).toBe(credits);
  });

  test('uses the price of cached input if the catalog has one', async () => {
    const usage = {
      input_tokens: 1_000,
      input_tokens_details: { cached_tokens: 400 },
      output_tokens: 100,
      total_tokens: 1_100,
    };
    upstream.script('*', json(200, { data: [{ b64_json: png }], usage }));
    // 600 × 8 + 400 × 2 + 100 × 30
    expect(await edit('openai/gpt-image-2')).toBe(4_800 + 800 + 3_000);
  });

  test('is calculated from tokens for Gemini Nano Banana, and rounded up once', async () => {
    const inlineData = { mimeType: 'image/png', data: png };
    upstream.script(
      '*',
      json(200, {
        candidates: [{ content: { parts: [{ inlineData }] }, finishReason: 'STOP' }],
        usageMetadata: {
          promptTokenCount: 265,
          candidatesTokenCount: 1_120,
          totalTokenCount: 1_385,
        },
      }),
    );
    // 265 × 1.5 + 1,120 × 30 = 33,997.5
    expect(await edit('google/gemini-nano-banana-2.1')).toBe(33_998);
  });
});

describe('charge of embeddings', () => {
  async function embed(model: string, input: unknown): Promise<number> {
    const headers = { 'cache-control': 'no-store' };
    const reply = await gateway.post({ model, input }, { path: '/v1/embeddings', headers });
    expect([model, reply.status, reply.error]).toEqual([model, 200, {}]);
    return chargeOf(reply.requestId);
  }

  test.each([
    // A million tokens cost 0.02, 0.13, 0.10, and 0.15 dollars.
    ['openai/text-embedding-3-small', 123_456, 2_470],
    ['openai/text-embedding-3-large', 123_456, 16_050],
    ['mistralai/mistral-embed', 123_456, 12_346],
    ['mistralai/codestral-embed', 7, 2],
  ])('is calculated from tokens for %s: %i tokens', async (model, tokens, credits) => {
    const data = [{ object: 'embedding', index: 0, embedding: [0.5] }];
    const usage = { prompt_tokens: tokens, total_tokens: tokens };
    upstream.script('*', json(200, { object: 'list', data, usage }));
    expect(await embed(model, 'x'.repeat(tokens))).toBe(credits);
  });

  test("accepts a count beyond the model's context if there are many texts", async () => {
    const data = Array.from({ length: 500 }, (_, index) => ({ index, embedding: [0.5] }));
    upstream.script('*', json(200, { data, usage: { prompt_tokens: 200_000 } }));
    const texts = data.map(() => 'Word'.repeat(400));
    // 200,000 × 0.02
    expect(await embed('openai/text-embedding-3-small', texts)).toBe(4_000);
  });

  test.each([
    // 4/3 of the bytes and 512 tokens.
    [5_848, 761],
    // 1,000 × 0.13
    [5_849, 130],
    [900_000_000, 130],
    [0, 130],
  ])(
    'is estimated at 4 characters per token if the count is implausible: %i tokens',
    async (prompt_tokens, credits) => {
      const data = [{ index: 0, embedding: [0.5] }];
      upstream.script('*', json(200, { data, usage: { prompt_tokens } }));
      expect(await embed('openai/text-embedding-3-large', 'a'.repeat(4_000))).toBe(credits);
    },
  );

  test('is estimated at 4 characters per token if Cohere reports no count', async () => {
    const two = { embeddings: { float: [[0.5], [0.25]] }, response_type: 'embeddings_by_type' };
    upstream.script('*', json(200, two));
    // 1,004 and 7 characters are 252.75 tokens, rounded up to 253, at 0.12.
    expect(await embed('cohere/embed-v4.0', ['ab'.repeat(502), '把天空变成绿色'])).toBe(31);
  });

  test('is estimated at 4 characters per token for Gemini', async () => {
    upstream.script('*', json(200, { embeddings: [{ values: [0.5] }] }));
    // 4,004 characters, one of them an emoji, are 1,001 tokens at 0.20.
    expect(await embed('google/gemini-embedding-2', `${'a'.repeat(4_003)}😀`)).toBe(201);
  });
});

describe('charge of a transcript', () => {
  async function transcribe(duration: number): Promise<number> {
    upstream.script('*', json(200, { text: 'ok', duration }));
    const form = new FormData();
    form.append('model', 'openai/stt-1');
    form.append('file', new File([wavFile(50) as Uint8Array<ArrayBuffer>], 'a.wav'));
    const headers = {
      authorization: `Bearer ${gateway.keys.routing}`,
      'cache-control': 'no-store',
    };
    const init = { method: 'POST', headers, body: form };
    const reply = await readReply(await fetch(`${gateway.url}/v1/audio/transcriptions`, init));
    expect([duration, reply.status]).toEqual([duration, 200]);
    return chargeOf(reply.requestId);
  }

  // At 0.006 dollars per minute, a second costs 100 credits.
  test.each([
    [8.47, 847],
    [8.470000267028809, 848],
    [10.0001, 1_001],
    // The file has 12 seconds, and less than a fifth of that isn't plausible.
    [2.400001, 241],
  ])('of %d seconds is rounded up once to %i credits', async (seconds, credits) => {
    expect(await transcribe(seconds)).toBe(credits);
  });
});
