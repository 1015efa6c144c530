/** POST /v1/embeddings: requests to providers, answers, charges, and rejected requests. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isObject } from '../../src/core/json.ts';
import { EmbeddingServer } from '../support/embedding-server.ts';
import {
  chatAnswer,
  embeddings,
  json,
  refusingUrl,
  replay,
  startFakeUpstream,
} from '../support/fake-upstream.ts';
import { InProcessGateway, type Reply } from '../support/in-process.ts';

const upstream = startFakeUpstream();
const embeddingServer = new EmbeddingServer();
let gateway: InProcessGateway;

beforeAll(async () => {
  const at = (dialect: string, base_url: string, more: object = {}) => ({
    dialect,
    base_url,
    api_key: 'sk-upstream-0123456789',
    ...more,
  });
  const oddNames = {
    drop_params: ['user', 'encoding_format'],
    rename_params: { dimensions: 'output_dimension' },
  };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: {
      down: at('openai', `${refusingUrl()}/v1`),
      first: at('openai', `${upstream.url}/v1`),
      odd: at('openai', `${upstream.url}/odd/v1`, { quirks: oddNames }),
      small: at('openai', `${upstream.url}/v1`, { quirks: { embedding_batch: 32 } }),
      coherent: at('cohere', `${embeddingServer.url}/v2`),
      google: at('gemini', `${embeddingServer.url}/v1beta`),
      recorded: at('cohere', `${upstream.url}/v2`),
      'recorded-google': at('gemini', `${upstream.url}/v1beta`),
    },
    models: [
      model('test/embed', 'first', 'upstream-embed'),
      model('test/spare', 'down', 'upstream-embed', {
        endpoints: [endpoint('down', 'upstream-embed', 0), endpoint('first', 'spare-embed', 1)],
      }),
      model('test/odd', 'odd', 'odd-embed'),
      model('test/bert', 'first', 'bge', { tokenizer: 'bert' }),
      model('test/small', 'small', 'tei'),
      model('test/cohere', 'coherent', 'embed-v4.0'),
      model('test/gemini', 'google', 'gemini-embedding-001'),
      model('test/recorded', 'recorded', 'embed-v4.0'),
      model('test/recorded-google', 'recorded-google', 'gemini-embedding-001'),
      model('test/cheap', 'first', 'cheap', {
        endpoints: [{ provider: 'first', model: 'cheap', pricing: { prompt: '0.02' } }],
      }),
      model('test/chat', 'first', 'chat', { features: [] }),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
  await embeddingServer.stop();
});
afterEach(() => {
  upstream.reset();
  embeddingServer.reset();
});

/** Returns an endpoint that charges 1 credit per token. */
function endpoint(provider: string, name: string, priority = 0): object {
  return { provider, model: name, priority, pricing: { prompt: '1', completion: '0' } };
}

function model(id: string, provider: string, name: string, more: object = {}): object {
  return {
    id,
    name: id,
    input_modalities: ['text'],
    output_modalities: ['text'],
    features: ['embeddings'],
    endpoints: [endpoint(provider, name)],
    ...more,
  };
}

const path = '/v1/embeddings';
const operation = 'embeddings' as const;
/** Disables the cache, because tests repeat the same inputs. */
const noStore = { 'cache-control': 'no-store' };
const embed = (body: unknown, headers: Record<string, string> = noStore) =>
  gateway.post(body, { path, headers });

const fixture = (name: string) =>
  readFileSync(join(import.meta.dir, '../../fixtures', name), 'utf8');

/** Returns the vectors of a successful answer and checks its other fields. */
function vectorsOf(reply: Reply): unknown[] {
  expect([reply.status, reply.error]).toEqual([200, {}]);
  expect(reply.json.object).toBe('list');
  const data: unknown[] = Array.isArray(reply.json.data) ? reply.json.data : [];
  return data.map((item, index) => {
    const { embedding, ...rest } = isObject(item) ? item : {};
    expect(rest).toEqual({ object: 'embedding', index });
    return embedding;
  });
}

/** Decodes base64 independently of the gateway's code. */
function decodeFloats(base64: unknown): number[] {
  const bytes = Buffer.from(String(base64), 'base64');
  return Array.from({ length: bytes.length / 4 }, (_, index) => bytes.readFloatLE(index * 4));
}

const sent = (at = 0): Record<string, unknown> => {
  const body = upstream.requests[at]?.json;
  return isObject(body) ? body : {};
};

const chargeOf = async ({ requestId }: Reply) => {
  const { charges, usage, usageEstimated, ...record } = await gateway.record(requestId);
  return {
    credits: charges.modelCharge,
    tokens: usage.inputTokens,
    estimated: usageEstimated,
    operation: record.operation,
  };
};

describe('OpenAI embeddings', () => {
  test('sends the texts and returns the vectors under the alias', async () => {
    const usage = { prompt: 12, completion: 0 };
    upstream.script('upstream-embed', embeddings({ dimensions: 3, usage }));
    const reply = await embed({ model: 'test/embed', input: ['one', 'two'], user: 'ann' });
    const vectors = vectorsOf(reply);
    expect(vectors.map((vector) => Array.isArray(vector) && vector.length)).toEqual([3, 3]);
    expect(vectors[0]).not.toEqual(vectors[1]);
    expect(reply.json.model).toBe('test/embed');
    expect(reply.json.usage).toEqual({ prompt_tokens: 12, total_tokens: 12 });
    expect(sent()).toEqual({
      model: 'upstream-embed',
      input: ['one', 'two'],
      encoding_format: 'float',
      user: 'ann',
    });
    expect(reply.text).not.toContain('upstream-embed');
    expect(reply.headers.get('x-ratelimit-remaining')).toMatch(/^\d+$/);
    const expected = { credits: 12, tokens: 12, estimated: false, operation };
    expect(await chargeOf(reply)).toEqual(expected);
  });

  test('sends a single text as a string and rounds the charge up once', async () => {
    upstream.script('cheap', embeddings({ usage: { prompt: 51, completion: 0 } }));
    const reply = await embed({ model: 'test/cheap', input: 'one' });
    expect(vectorsOf(reply)).toHaveLength(1);
    expect(sent().input).toBe('one');
    // 51 tokens at 0.02 dollars per million are 1.02 credits.
    expect((await chargeOf(reply)).credits).toBe(2);
  });

  test('accepts usage that has only total_tokens', async () => {
    const data = [{ object: 'embedding', index: 0, embedding: [0.5, 0.25] }];
    upstream.script(
      'upstream-embed',
      json(200, { object: 'list', data, usage: { total_tokens: 9 } }),
    );
    const reply = await embed({ model: 'test/embed', input: 'one' });
    expect(reply.json.usage).toEqual({ prompt_tokens: 9, total_tokens: 9 });
    expect(await chargeOf(reply)).toEqual({ credits: 9, tokens: 9, estimated: false, operation });
  });

  test('forwards unknown fields, even with names of object methods', async () => {
    upstream.script('upstream-embed', embeddings());
    const extras = '"constructor":{"a":1},"toString":"b","__proto__":{"c":2}';
    await embed(JSON.parse(`{"model":"test/embed","input":"one",${extras}}`));
    const [entry] = upstream.requests;
    expect(Object.entries(sent())).toContainEqual(['constructor', { a: 1 }]);
    expect(Object.entries(sent())).toContainEqual(['toString', 'b']);
    expect(Buffer.from(entry?.raw ?? []).toString()).toContain('"__proto__":{"c":2}');
    expect(Object.keys(sent())).toHaveLength(6);
  });

  test('renames dimensions and drops parameters according to the quirks', async () => {
    upstream.script('upstream-embed', embeddings());
    const withoutQuirks = await embed({ model: 'test/embed', input: 'one', dimensions: 5 });
    expect(vectorsOf(withoutQuirks)[0]).toHaveLength(5);
    expect(sent().dimensions).toBe(5);
    upstream.script('odd-embed', embeddings({ dimensions: 4 }));
    const reply = await embed({ model: 'test/odd', input: 'one', dimensions: 4, user: 'ann' });
    expect(vectorsOf(reply)[0]).toHaveLength(4);
    expect(sent(1)).toEqual({ model: 'odd-embed', input: 'one', output_dimension: 4 });
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('user');
  });

  test('requests base64 for the client and forwards it unchanged', async () => {
    upstream.script('upstream-embed', replay(fixture('openai/embeddings-base64.json')));
    const body = { model: 'test/embed', input: 'Hello, world!', encoding_format: 'base64' };
    const reply = await embed(body);
    expect(sent().encoding_format).toBe('base64');
    const [vector] = vectorsOf(reply);
    const recorded = JSON.parse(fixture('openai/embeddings-base64.json'));
    expect(vector).toBe(recorded.data[0].embedding);
    expect(decodeFloats(vector)).toHaveLength(1536);
    expect(reply.json.usage).toEqual({ prompt_tokens: 4, total_tokens: 4 });
  });

  test('reads an answer with additional fields and removes upstream names', async () => {
    upstream.script('upstream-embed', replay(fixture('openrouter/embeddings-dims.json')));
    const input = "Ruby is a programmer's best friend";
    const reply = await embed({ model: 'test/embed', input, dimensions: 768 });
    expect(sent().dimensions).toBe(768);
    const [vector] = vectorsOf(reply);
    expect(vector).toHaveLength(768);
    expect(Array.isArray(vector) && vector[0]).toBe(-0.0606689453125);
    expect(reply.json).toMatchObject({
      model: 'test/embed',
      usage: { prompt_tokens: 7, total_tokens: 7 },
    });
    expect(reply.text).not.toMatch(/gen-emb-|text-embedding-3-small/);
    expect((await chargeOf(reply)).credits).toBe(7);
  });

  test('tries the next model if the provider does not know the first, or reports the error', async () => {
    const missing = replay(fixture('openai/embeddings-error-404.json'), { status: 404 });
    upstream.script('upstream-embed', missing);
    const reply = await embed({ model: 'test/embed', input: 'Hello, world!' });
    expect([reply.status, reply.error.type]).toEqual([400, 'invalid_request_error']);
    expect(reply.error.message).toStartWith('The model `nonexistent` does not exist');
    expect((await chargeOf(reply)).credits).toBe(0);
    upstream.script('cheap', embeddings());
    const next = await embed({ model: 'test/embed', models: ['test/cheap'], input: 'Hello!' });
    expect(vectorsOf(next)).toHaveLength(1);
    expect(next.json.model).toBe('test/cheap');
  });

  test('converts between floats and base64 if the provider ignores the encoding', async () => {
    upstream.script('upstream-embed', replay(fixture('openai/embeddings-base64.json')));
    const floats = await embed({ model: 'test/embed', input: 'Hello, world!' });
    const { data } = JSON.parse(fixture('openai/embeddings-base64.json'));
    expect(vectorsOf(floats)[0]).toEqual(decodeFloats(data[0].embedding));
    upstream.script('upstream-embed', replay(fixture('openai/embeddings-two.json')));
    const body = { model: 'test/embed', input: ['a', 'b'], encoding_format: 'base64' };
    const two = await embed(body);
    expect(two.json.usage).toEqual({ prompt_tokens: 12, total_tokens: 12 });
    const packed = vectorsOf(two).map(decodeFloats);
    const recorded: { embedding: number[] }[] = JSON.parse(
      fixture('openai/embeddings-two.json'),
    ).data;
    expect(packed).toEqual(recorded.map(({ embedding }) => embedding.map(Math.fround)));
  });

  test('sorts vectors that arrive out of order', async () => {
    const item = (index: number) => ({ object: 'embedding', index, embedding: [index, 0.5] });
    const usage = { prompt_tokens: 3, total_tokens: 3 };
    const data = [item(2), item(0), item(1)];
    upstream.script('upstream-embed', json(200, { object: 'list', data, usage }));
    const reply = await embed({ model: 'test/embed', input: ['a', 'b', 'c'] });
    expect(vectorsOf(reply)).toEqual([
      [0, 0.5],
      [1, 0.5],
      [2, 0.5],
    ]);
  });

  test('forwards input that is already tokenized', async () => {
    upstream.script('upstream-embed', embeddings({ usage: { prompt: 5, completion: 0 } }));
    expect(vectorsOf(await embed({ model: 'test/embed', input: [9906, 11, 220] }))).toHaveLength(1);
    expect(sent().input).toEqual([9906, 11, 220]);
    const several = [[9906, 11], [220]];
    expect(vectorsOf(await embed({ model: 'test/embed', input: several }))).toHaveLength(2);
    expect(sent(1).input).toEqual(several);
  });

  test('decodes tokens for a model with a different tokenizer', async () => {
    upstream.script('bge', embeddings());
    // "Hello, 世界! 👋" as tokens of OpenAI's tokenizer.
    const hello = [9906, 11, 220, 3574, 244, 98220, 0, 62904, 233];
    vectorsOf(await embed({ model: 'test/bert', input: [hello, [9906]] }));
    expect(sent().input).toEqual(['Hello, 世界! 👋', 'Hello']);
  });

  test('sends 2,048 texts in 1 request for base64, or in 4 requests for floats', async () => {
    const input = Array.from({ length: 2_048 }, (_, index) => `text ${index}`);
    upstream.script('upstream-embed', embeddings({ dimensions: 2 }));
    const body = { model: 'test/embed', input, encoding_format: 'base64' };
    const packed = vectorsOf(await embed(body)).map(decodeFloats);
    expect(upstream.requests).toHaveLength(1);
    const floats = await embed({ model: 'test/embed', input });
    expect(vectorsOf(floats)).toEqual(packed);
    expect(upstream.requests.length).toBe(1 + 4);
    // The fake upstream counts words: 2 in each text.
    expect(floats.json.usage).toEqual({ prompt_tokens: 4_096, total_tokens: 4_096 });
    expect((await chargeOf(floats)).credits).toBe(4_096);
  });

  test('sends batches of at most embedding_batch texts', async () => {
    upstream.script('tei', embeddings({ dimensions: 2 }));
    const input = Array.from({ length: 70 }, (_, index) => `text ${index}`);
    expect(vectorsOf(await embed({ model: 'test/small', input }))).toHaveLength(70);
    const sizes = upstream.requests.map((_, index) => (sent(index).input as unknown[]).length);
    expect(sizes.toSorted((a, b) => b - a)).toEqual([32, 32, 6]);
  });

  test('estimates 4 characters per token if the provider reports no usage', async () => {
    const data = [{ object: 'embedding', index: 0, embedding: [1] }];
    upstream.script('upstream-embed', json(200, { object: 'list', data }));
    // 13 characters, including an emoji.
    const reply = await embed({ model: 'test/embed', input: 'Good morning😀' });
    expect(reply.json.usage).toEqual({ prompt_tokens: 4, total_tokens: 4 });
    const expected = { credits: 4, tokens: 4, estimated: true, operation };
    expect(await chargeOf(reply)).toEqual(expected);
  });

  test('falls back to the next provider', async () => {
    upstream.script('spare-embed', embeddings());
    const reply = await embed({ model: 'test/spare', input: 'one' });
    expect(vectorsOf(reply)).toHaveLength(1);
    const { attempts } = await gateway.record(reply.requestId);
    expect(attempts.map(({ provider, outcome }) => [provider, outcome])).toEqual([
      ['down', 'unreachable'],
      ['first', 'answered'],
    ]);
  });
});

describe('Cohere embeddings', () => {
  const texts = (count: number) => Array.from({ length: count }, (_, index) => `number ${index}`);

  test('sends input_type search_document and estimates 4 characters per token', async () => {
    const input = ['sunny day 1', 'rainy day 22'];
    const body = { model: 'test/cohere', input, dimensions: 256, user: 'ann', input_type: 'x' };
    const reply = await embed(body);
    expect(vectorsOf(reply)).toEqual([
      [1, 11],
      [22, 12],
    ]);
    expect(embeddingServer.calls.map(({ path: at, body }) => [at, body])).toEqual([
      [
        '/v2/embed',
        {
          model: 'embed-v4.0',
          input_type: 'search_document',
          embedding_types: ['float'],
          output_dimension: 256,
          texts: input,
        },
      ],
    ]);
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('input_type, user');
    // 11 + 12 characters are 5.75 tokens.
    expect(reply.json.usage).toEqual({ prompt_tokens: 6, total_tokens: 6 });
    const expected = { credits: 6, tokens: 6, estimated: true, operation };
    expect(await chargeOf(reply)).toEqual(expected);
    expect(reply.json.model).toBe('test/cohere');
  });

  test('drops unknown fields and reports at most 50 names that fit in a header', async () => {
    const odd = { '\0': 1, 'two\nlines': 1, ж: 1, '😀': 1, '': 1, ['x'.repeat(65)]: 1 };
    const many = Array.from({ length: 5_000 }, (_, index): [string, number] => [`odd-${index}`, 1]);
    const body = { model: 'test/cohere', input: 'sunny day 1', ...odd, user: 'ann' };
    expect((await embed(body)).headers.get('x-tollgate-dropped-params')).toBe('user');
    const reply = await embed({ ...body, ...Object.fromEntries(many) });
    expect(reply.status).toBe(200);
    expect(reply.headers.get('x-tollgate-dropped-params')?.split(', ')).toHaveLength(50);
  });

  test('sends batches of 96 texts and returns the vectors in order with one charge', async () => {
    embeddingServer.tokensPerText = 3;
    embeddingServer.minConcurrentCalls = 4;
    const body = { model: 'test/cohere', input: texts(500), encoding_format: 'base64' };
    const reply = await embed(body);
    const firstValues = vectorsOf(reply).map((vector) => decodeFloats(vector)[0]);
    expect(firstValues).toEqual(Array.from({ length: 500 }, (_, index) => index));
    const sizes = embeddingServer.calls.map((call) => call.texts.length).toSorted((a, b) => b - a);
    expect(sizes).toEqual([96, 96, 96, 96, 96, 20]);
    expect(embeddingServer.maxConcurrentCalls).toBe(4);
    expect(reply.json.usage).toEqual({ prompt_tokens: 1_500, total_tokens: 1_500 });
    const expected = { credits: 1_500, tokens: 1_500, estimated: false, operation };
    expect(await chargeOf(reply)).toEqual(expected);
    const { attempts } = await gateway.record(reply.requestId);
    expect(attempts).toHaveLength(1);
  });

  test('rejects the full request free of charge if one batch is rejected', async () => {
    embeddingServer.nextResponse = Response.json(
      { id: 'e', message: 'text 3 is too long' },
      { status: 400 },
    );
    const reply = await embed({ model: 'test/cohere', input: texts(100) });
    const symbol = 'invalid_request_error';
    expect([reply.status, reply.error]).toEqual([
      400,
      { message: 'text 3 is too long', type: symbol, code: symbol, param: null },
    ]);
    expect((await chargeOf(reply)).credits).toBe(0);
  });

  test('decodes tokenized input', async () => {
    vectorsOf(await embed({ model: 'test/cohere', input: [[9906], [9906, 11]] }));
    expect(embeddingServer.calls[0]?.texts).toEqual(['Hello', 'Hello,']);
  });

  test.each([
    ['cohere/embed-v4-single.json', 1_536, 7],
    ['cohere/embed-v4-dims.json', 1_024, 7],
  ])('reads the recording %s', async (name, dimensions, tokens) => {
    upstream.script('embed-v4.0', replay(fixture(name)));
    const input = "Ruby is a programmer's best friend";
    const reply = await embed({ model: 'test/recorded', input });
    expect(vectorsOf(reply)[0]).toHaveLength(dimensions);
    expect(reply.json.usage).toEqual({ prompt_tokens: tokens, total_tokens: tokens });
  });

  test('reads a recording of 2 texts in order', async () => {
    upstream.script('embed-v4.0', replay(fixture('cohere/embed-two.json')));
    const reply = await embed({ model: 'test/recorded', input: ['a', 'b'] });
    expect(vectorsOf(reply)).toEqual([
      [0.03302002, 0.020904541, -0.019744873, -0.0625, 0.04437256],
      [-0.04660034, 0.00037765503, -0.061157227, -0.08239746, -0.010360718],
    ]);
    expect(reply.json.usage).toEqual({ prompt_tokens: 10, total_tokens: 10 });
  });

  test('hides a rejected API key from the client', async () => {
    upstream.script('embed-v4.0', replay(fixture('cohere/error-401.json'), { status: 401 }));
    const reply = await embed({ model: 'test/recorded', input: 'a' });
    expect([reply.status, reply.error.type]).toEqual([502, 'upstream_error']);
    expect(reply.error.message).toBe("The provider rejected the gateway's account.");
    const { attempts, charges } = await gateway.record(reply.requestId);
    expect(attempts).toMatchObject([{ outcome: 'credential', status: 401 }]);
    expect(charges.modelCharge).toBe(0);
  });

  test('reports an unknown model without its upstream name', async () => {
    upstream.script('embed-v4.0', replay(fixture('cohere/embed-error-404.json'), { status: 404 }));
    const reply = await embed({ model: 'test/recorded', input: 'a' });
    expect([reply.status, reply.error.type]).toEqual([400, 'invalid_request_error']);
    expect(reply.text).not.toContain('embed-v4.0');
  });
});

describe('Gemini embeddings', () => {
  test('sends batches of 100 with outputDimensionality and estimates the tokens', async () => {
    const input = Array.from({ length: 250 }, (_, index) => `number ${index + 100}`);
    const reply = await embed({ model: 'test/gemini', input, dimensions: 768 });
    const firstValues = vectorsOf(reply).map((vector) =>
      Array.isArray(vector) ? vector[0] : null,
    );
    expect(firstValues).toEqual(Array.from({ length: 250 }, (_, index) => index + 100));
    const sizes = embeddingServer.calls.map((call) => call.texts.length).toSorted((a, b) => b - a);
    expect(sizes).toEqual([100, 100, 50]);
    const [call] = embeddingServer.calls;
    expect(call?.path).toBe('/v1beta/models/gemini-embedding-001:batchEmbedContents');
    expect(call?.headers.get('x-goog-api-key')).toBe('sk-upstream-0123456789');
    const requests = Array.isArray(call?.body.requests) ? call.body.requests : [];
    expect(requests[0]).toEqual({
      model: 'models/gemini-embedding-001',
      content: { parts: [{ text: call?.texts[0] }] },
      outputDimensionality: 768,
    });
    // 250 texts of 10 characters.
    expect(reply.json.usage).toEqual({ prompt_tokens: 625, total_tokens: 625 });
    expect((await chargeOf(reply)).credits).toBe(625);
  });

  test('reads a recorded answer', async () => {
    upstream.script('gemini-embedding-001', replay(fixture('gemini/embeddings-batch.json')));
    const input = "Ruby is a programmer's best friend";
    const reply = await embed({ model: 'test/recorded-google', input, dimensions: 768 });
    const [vector] = vectorsOf(reply);
    expect(vector).toHaveLength(768);
    expect(Array.isArray(vector) && vector[0]).toBe(0.013796286);
    // The input has 34 characters.
    expect(reply.json.usage).toEqual({ prompt_tokens: 9, total_tokens: 9 });
  });
});

describe('an invalid embeddings answer', () => {
  const item = (index: number, embedding: unknown) => ({ object: 'embedding', index, embedding });
  const cases: readonly [string, unknown][] = [
    ['too few vectors', { data: [item(0, [1])] }],
    ['a repeated index', { data: [item(0, [1]), item(0, [1])] }],
    ['an index out of range', { data: [item(0, [1]), item(7, [1])] }],
    ['a vector of strings', { data: [item(0, [1]), item(1, ['1'])] }],
    ['an empty vector', { data: [item(0, [1]), item(1, [])] }],
    ['invalid base64', { data: [item(0, 'AAAA?A=='), item(1, 'AACAPw==')] }],
    ['base64 of an incomplete float', { data: [item(0, 'AACA'), item(1, 'AACAPw==')] }],
    ['an empty object', {}],
    ['an array', []],
  ];

  test.each(cases)('is a 502 that is free of charge: %s', async (_, body) => {
    upstream.script('upstream-embed', json(200, body));
    const reply = await embed({ model: 'test/embed', input: ['a', 'b'] });
    expect([reply.status, reply.error.type]).toEqual([502, 'upstream_error']);
    expect((await chargeOf(reply)).credits).toBe(0);
  });

  test('is reported with its own error message if it is an error with status 200', async () => {
    upstream.script('upstream-embed', json(200, { error: { message: 'too long', code: 400 } }));
    const reply = await embed({ model: 'test/embed', input: 'a' });
    expect([reply.status, reply.error.message]).toEqual([400, 'too long']);
  });
});

describe('cached embeddings', () => {
  test('are served in either encoding, free of charge', async () => {
    upstream.script(
      'upstream-embed',
      embeddings({ dimensions: 3, usage: { prompt: 9, completion: 0 } }),
    );
    const body = { model: 'test/embed', input: ['cached one', 'cached two'] };
    const first = await embed(body, {});
    expect(first.headers.get('x-cache')).toBe('MISS');
    const again = await embed({ ...body, encoding_format: 'base64' }, {});
    expect(again.headers.get('x-cache')).toBe('HIT');
    expect(again.headers.get('x-cache-model')).toBe('test/embed');
    expect(vectorsOf(again).map(decodeFloats)).toEqual(vectorsOf(first) as number[][]);
    expect(again.json.usage).toEqual({ prompt_tokens: 9, total_tokens: 9 });
    expect(upstream.requests).toHaveLength(1);
    expect((await chargeOf(again)).credits).toBe(0);
    await embed({ ...body, dimensions: 2 }, {});
    expect(upstream.requests).toHaveLength(2);
  });
});

describe('an invalid embeddings request', () => {
  const good = { model: 'test/embed', input: 'text' };
  const many = (count: number) => Array.from({ length: count }, () => 'a');
  const cases: readonly [string, object, number, string | null][] = [
    ['no model', { input: 'text' }, 400, 'model'],
    ['an unknown model', { ...good, model: 'test/embedd' }, 404, 'model'],
    ['no input', { model: 'test/embed' }, 400, 'input'],
    ['input null', { ...good, input: null }, 400, 'input'],
    ['an empty text', { ...good, input: '' }, 400, 'input'],
    ['no texts', { ...good, input: [] }, 400, 'input'],
    ['an empty text among others', { ...good, input: ['a', 'b', 'c', ''] }, 400, 'input[3]'],
    ['a number among texts', { ...good, input: ['a', 5] }, 400, 'input[1]'],
    ['null among texts', { ...good, input: ['a', null] }, 400, 'input[1]'],
    ['a text among tokens', { ...good, input: [5, 'a'] }, 400, 'input[1]'],
    ['a negative token', { ...good, input: [1, -1] }, 400, 'input[1]'],
    ['a fractional token', { ...good, input: [[1, 2.5]] }, 400, 'input[0][1]'],
    ['a text among lists of tokens', { ...good, input: [[1], 'a'] }, 400, 'input[1]'],
    ['an empty list of tokens', { ...good, input: [[1], []] }, 400, 'input[1]'],
    ['an object', { ...good, input: { text: 'a' } }, 400, 'input'],
    ['2,049 texts', { ...good, input: many(2_049) }, 400, 'input'],
    ['an unknown encoding', { ...good, encoding_format: 'int8' }, 400, 'encoding_format'],
    ['dimensions 0', { ...good, dimensions: 0 }, 400, 'dimensions'],
    ['dimensions 1.5', { ...good, dimensions: 1.5 }, 400, 'dimensions'],
    ['a user that is not a string', { ...good, user: 5 }, 400, 'user'],
    [
      'a token that does not exist',
      { model: 'test/cohere', input: [[5], [5, 200_000]] },
      400,
      'input[1][1]',
    ],
  ];

  test.each(cases)('is rejected: %s', async (_, body, status, param) => {
    const reply = await embed(body);
    const type = 'invalid_request_error';
    expect([reply.status, reply.error]).toEqual([
      status,
      { message: expect.any(String), type, code: type, param },
    ]);
    expect(String(reply.error.message)).toMatch(/^\S.*[.?]$/);
    expect(upstream.requests.length + embeddingServer.calls.length).toBe(0);
    expect((await chargeOf(reply)).credits).toBe(0);
  });

  test('is rejected for a model without embeddings', async () => {
    const reply = await embed({ model: 'test/chat', input: 'a' });
    expect([reply.status, reply.error.type]).toEqual([400, 'model_capability_mismatch']);
    expect(reply.error.message).toBe('The model "test/chat" is not an embedding model.');
  });

  test('is rejected for a key without the scope', async () => {
    const key = await gateway.makeKey({ scopes: ['chat'] });
    const reply = await gateway.post(good, { path, key });
    expect([reply.status, reply.error.type]).toEqual([403, 'forbidden']);
  });

  test("is rejected if the credits don't cover the hold", async () => {
    const key = await gateway.makeKey({ limit: 3 });
    // 12 bytes are held as 4 tokens.
    const reply = await gateway.post({ ...good, input: 'twelve bytes' }, { path, key });
    expect([reply.status, reply.error.type]).toEqual([402, 'insufficient_credits']);
    // 5 tokens may be 10 in another tokenizer.
    const tokens = { model: 'test/cohere', input: [1, 2, 3, 4, 5] };
    const keyWith9 = await gateway.makeKey({ limit: 9 });
    expect((await gateway.post(tokens, { path, key: keyWith9 })).status).toBe(402);
    expect(upstream.requests.length + embeddingServer.calls.length).toBe(0);
    upstream.script('upstream-embed', chatAnswer('', { usage: { prompt: 3, completion: 0 } }));
    const small = await gateway.post({ ...good, input: 'nine byte' }, { path, key });
    expect(small.status).toBe(200);
  });
});
