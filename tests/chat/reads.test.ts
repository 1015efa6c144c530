import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { chatAnswer, gated, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway, type Reply } from '../support/in-process.ts';

// The read-only endpoints: models, and the outcome of a request.

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const vendor = { dialect: 'openai', base_url: `${upstream.url}/v1` };
  gateway = await InProcessGateway.start({
    providers: { vendor, picky: { ...vendor, quirks: { drop_params: ['seed'] } } },
    models: [
      chatModel(
        'acme/chat-large',
        [
          { provider: 'picky', model: 'up-2', priority: 1, pricing: price('9', '9') },
          { provider: 'vendor', model: 'up-1', priority: 0, pricing: price('0.50', '1.50') },
        ],
        { description: 'Large', max_completion_tokens: 16_384, created: 1_700_000_000 },
      ),
      chatModel('acme/chat-small', [{ provider: 'picky', model: 'up-3' }]),
      chatModel('other/chat', [{ provider: 'vendor', model: 'up-4' }]),
    ],
  });
  upstream.script('*', chatAnswer('one two three'));
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

function price(prompt: string, completion: string) {
  return { prompt, completion, request: '0.01', image: '0.002' };
}

function idsIn({ json }: Reply): unknown[] {
  return Array.isArray(json.data) ? json.data.filter(isObject).map(({ id }) => id) : [];
}

describe('GET /v1/models', () => {
  test('lists every model with all documented fields', async () => {
    const reply = await gateway.get('/v1/models');
    expect(reply.status).toBe(200);
    expect(reply.json.object).toBe('list');
    expect(idsIn(reply)).toEqual(['acme/chat-large', 'acme/chat-small', 'other/chat']);
    const [first] = Array.isArray(reply.json.data) ? reply.json.data : [];
    expect(first).toMatchObject({
      id: 'acme/chat-large',
      object: 'model',
      created: 1_700_000_000,
      owned_by: 'acme',
      name: 'acme/chat-large',
      description: 'Large',
      context_length: 128_000,
      pricing: { prompt: '0.0000005', completion: '0.0000015', request: '0.01', image: '0.002' },
      architecture: {
        modality: 'text+image+audio+file->text',
        input_modalities: ['text', 'image', 'audio', 'file'],
        output_modalities: ['text'],
        features: ['tools', 'json_mode', 'json_schema', 'reasoning'],
      },
      top_provider: {
        context_length: 128_000,
        max_completion_tokens: 16_384,
        is_moderated: false,
      },
      per_request_limits: null,
    });
    expect(reply.text).not.toMatch(/up-\d|127\.0\.0\.1/);
  });

  test('lists a parameter as supported if at least 1 endpoint accepts it', async () => {
    const large = await gateway.get('/v1/models/acme/chat-large');
    const small = await gateway.get('/v1/models/acme/chat-small');
    expect(large.json.supported_parameters).toContain('seed');
    expect(small.json.supported_parameters).not.toContain('seed');
    expect(small.json.supported_parameters).toContain('temperature');
  });

  test.each([
    '/v1/models/acme/chat-large',
    '/v1/models/acme%2Fchat-large',
    '/v1/models/acme%2fchat-large',
    '/models/acme/chat-large',
    '/v1/v1/models/acme/chat-large/',
    '/openai/v1/models/acme/chat-large',
    '/api/v1/models/acme/chat-large',
  ])('returns one model by its alias: %s', async (path) => {
    const reply = await gateway.get(path);
    expect(reply.status).toBe(200);
    expect(reply.json).toMatchObject({ id: 'acme/chat-large', object: 'model' });
  });

  test.each([
    ['/v1/models/acme/chat-larg', 'acme/chat-large'],
    ['/v1/models/nothing-like-it', 'nothing-like-it'],
  ])('returns 404 with param model for an unknown alias: %s', async (path, expected) => {
    const reply = await gateway.get(path);
    expect(reply.status).toBe(404);
    expect(reply.error).toMatchObject({ type: 'invalid_request_error', param: 'model' });
    expect(reply.error.message).toContain(expected);
  });

  test('shows a key only the models it may use', async () => {
    const key = await gateway.makeKey({ models: ['acme/*'] });
    expect(idsIn(await gateway.get('/v1/models', { key }))).toEqual([
      'acme/chat-large',
      'acme/chat-small',
    ]);
    expect((await gateway.get('/v1/models/acme/chat-small', { key })).status).toBe(200);
    const hidden = await gateway.get('/v1/models/other/chat', { key });
    expect(hidden.status).toBe(404);
    const near = await gateway.get('/v1/models/other/cha', { key });
    expect(near.error.message).not.toContain('other/chat"?');
    const body = { model: 'other/chat', messages: [{ role: 'user', content: 'hi' }] };
    const refused = await gateway.post(body, { key });
    expect(refused.status).toBe(403);
    expect(refused.error).toMatchObject({ type: 'forbidden', param: 'model' });
    const chain = await gateway.post({ ...body, models: ['acme/chat-small'] }, { key });
    expect(chain.json.model).toBe('acme/chat-small');
  });

  test('returns the list in the Anthropic format to Anthropic clients', async () => {
    const headers = { 'anthropic-version': '2023-06-01' };
    const reply = await gateway.get('/v1/models?limit=1000', { headers });
    expect(reply.json).toMatchObject({
      has_more: false,
      first_id: 'acme/chat-large',
      last_id: 'other/chat',
    });
    const [first] = Array.isArray(reply.json.data) ? reply.json.data : [];
    expect(first).toMatchObject({
      type: 'model',
      display_name: 'acme/chat-large',
      capabilities: null,
      lifecycle: 'active',
      line: null,
      deprecated_at: null,
      retires_at: null,
    });
    const byPath = await gateway.get('/v1/anthropic/v1/models');
    expect(byPath.json.has_more).toBe(false);
  });

  test('returns pages of the list to Anthropic clients', async () => {
    const headers = { 'anthropic-version': '2023-06-01' };
    const list = (query: string) => gateway.get(`/v1/models?${query}`, { headers });
    const all = idsIn(await gateway.get('/v1/models'));
    const page = async (query: string) => {
      const reply = await list(query);
      const { has_more, first_id, last_id } = reply.json;
      return { ids: idsIn(reply), has_more, first_id, last_id };
    };
    const pageOf = (ids: unknown[], has_more: boolean) => ({
      ids,
      has_more,
      first_id: ids[0] ?? null,
      last_id: ids.at(-1) ?? null,
    });
    const [first, second, third] = all;
    expect(all.length).toBeGreaterThan(2);
    expect(await page('limit=1')).toEqual(pageOf([first], true));
    expect(await page(`limit=1&after_id=${first}`)).toEqual(pageOf([second], true));
    expect(await page(`after_id=${first}`)).toEqual(pageOf(all.slice(1), false));
    expect(await page(`after_id=${all.at(-1)}`)).toEqual(pageOf([], false));
    expect(await page(`limit=1&before_id=${third}`)).toEqual(pageOf([second], true));
    expect(await page(`limit=2&before_id=${third}`)).toEqual(pageOf([first, second], false));
    expect(idsIn(await gateway.get('/v1/models?limit=1'))).toEqual(all);
  });

  test.each([
    ['limit=0', 'limit'],
    ['after_id=none/such', 'after_id'],
    ['before_id=none/such', 'before_id'],
    ['after_id=other/chat&before_id=other/chat', 'before_id'],
  ])('returns 400 to Anthropic clients for %s', async (query, param) => {
    const headers = { 'anthropic-version': '2023-06-01' };
    const reply = await gateway.get(`/v1/models?${query}`, { headers });
    expect(reply.status).toBe(400);
    expect(reply.error.type).toBe('invalid_request_error');
    expect(reply.error.message).toContain(param);
  });

  test.each(['/v1/files', '/v1/files/file_1', '/v1/skills', '/v1/messages/batches'])(
    'returns a 404 in the Anthropic format to Anthropic clients: %s',
    async (path) => {
      const headers = { 'anthropic-version': '2023-06-01' };
      const reply = await gateway.get(path, { headers });
      expect(reply.status).toBe(404);
      expect(reply.json).toMatchObject({ type: 'error', error: { type: 'not_found_error' } });
    },
  );

  test('accepts a management key and rejects requests without a key', async () => {
    const { management } = gateway.keys;
    expect((await gateway.get('/v1/models', { key: management })).status).toBe(200);
    expect((await fetch(`${gateway.url}/v1/models`)).status).toBe(401);
  });
});

describe('GET /v1/generation', () => {
  const chat = { model: 'acme/chat-large', messages: [{ role: 'user', content: 'hi there' }] };
  const find = (id: string, key?: string) =>
    gateway.get(`/v1/generation?id=${id}`, key === undefined ? {} : { key });

  test('returns the full record as soon as the answer has arrived', async () => {
    const before = Date.now();
    const reply = await gateway.post(chat);
    const found = await find(reply.requestId);
    expect(found.status).toBe(200);
    const { data } = found.json;
    // 2 tokens at $0.50 and 3 at $1.50 per million, plus $0.01 for the request.
    const cost = 10_006;
    expect(data).toMatchObject({
      id: reply.requestId,
      model: 'acme/chat-large',
      provider_name: 'vendor',
      tokens_prompt: 2,
      tokens_completion: 3,
      native_tokens_prompt: 2,
      native_tokens_completion: 3,
      finish_reason: 'stop',
      total_cost: cost,
      usage: cost,
      streamed: false,
      cancelled: false,
    });
    const at = isObject(data) ? Date.parse(String(data.created_at)) : 0;
    expect(at).toBeWithin(before, Date.now() + 1);
    expect(reply.json.usage).toMatchObject({ cost });
  });

  test('finds a stream by the id in its chunks', async () => {
    const stream = await gateway.stream(chat);
    const found = await find(String(stream.chunks[0]?.id));
    expect(found.json.data).toMatchObject({ id: stream.requestId, streamed: true });
  });

  test.each(['/v1/generation', '/api/v1/generation'])(
    'returns a request that is still running as in progress below %s',
    async (path) => {
      upstream.script('up-4', gated(path, 2, chatAnswer('one two three')));
      const response = await gateway.fetch({ ...chat, model: 'other/chat', stream: true });
      const id = response.headers.get('x-request-id');
      const running = await gateway.get(`${path}?id=${id}`);
      expect([running.status, running.json.data]).toMatchObject([
        200,
        {
          ...{ id, status: 'in_progress', model: 'other/chat', provider_name: '' },
          ...{ finish_reason: '', total_cost: 0, usage: 0, tokens_completion: 0 },
          ...{ streamed: true, cancelled: false, native_tokens_completion: null },
        },
      ]);
      const rival = await gateway.makeTenant({ name: `Rival ${path.length}` });
      expect((await gateway.get(`${path}?id=${id}`, { key: rival })).status).toBe(404);
      upstream.open(path);
      await response.text();
      const ended = await gateway.get(`${path}?id=${id}`);
      expect(ended.json.data).toMatchObject({ status: 'success', finish_reason: 'stop' });
    },
  );

  test('finds a rejected request', async () => {
    const refused = await gateway.post({ ...chat, model: 'acme/none' });
    const found = await find(refused.requestId);
    expect(found.json.data).toMatchObject({
      model: 'acme/none',
      total_cost: 0,
      tokens_prompt: 0,
      provider_name: '',
    });
  });

  test('returns the model that an invalid request names in model or models', async () => {
    const chain = ['acme/none', 'acme/chat'];
    for (const fields of [{ model: 'acme/none' }, { model: null, models: chain }]) {
      const refused = await gateway.post({ ...chat, ...fields, temperature: 9 });
      expect(refused.status).toBe(400);
      expect((await find(refused.requestId)).json.data).toMatchObject({ model: 'acme/none' });
    }
  });

  test.each(['', 'not-an-id', '00000000-0000-4000-8000-000000000000', "' OR '1'='1"])(
    'rejects a missing, malformed, or unknown id: %j',
    async (id) => {
      const found = await gateway.get(`/v1/generation?id=${encodeURIComponent(id)}`);
      expect(found.status).toBe(id === '' ? 400 : 404);
      expect(found.error).toMatchObject({ type: 'invalid_request_error', param: 'id' });
    },
  );

  test("does not find another tenant's request", async () => {
    const reply = await gateway.post(chat);
    const other = await gateway.makeTenant({ id: 'rival', name: 'Rival' });
    expect((await find(reply.requestId, other)).status).toBe(404);
    expect((await find(reply.requestId, gateway.keys.management)).status).toBe(200);
  });
});
