/** Counting tokens over real sockets: which provider counts, its request, and the answer. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { Vault } from '../../src/auth/vault.ts';
import { isObject } from '../../src/core/json.ts';
import { secretKeysOf } from '../../src/store/secret-key.ts';
import { makeByokTenant } from '../support/byok.ts';
import {
  type Behavior,
  chatAnswer,
  compressionBomb,
  emptyBody,
  gated,
  hangBeforeHeaders,
  htmlWith200,
  json,
  redirect,
  replay,
  resetBeforeHeaders,
  startFakeUpstream,
  status,
  status429,
  status500,
  truncatedJson,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway, type SendOptions } from '../support/in-process.ts';
import { readFixture } from '../support/upstream-conformance.ts';

const upstream = startFakeUpstream();
const spare = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const at = (dialect: string, url: string, more: object = {}) => ({
    dialect,
    base_url: `${url}/v1`,
    api_key: `sk-${dialect}-operator`,
    ...more,
  });
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: {
      claude: at('anthropic', upstream.url),
      spare: at('anthropic', spare.url),
      open: at('openai', upstream.url),
      elsewhere: at('anthropic', upstream.url, { shared: false, byok_base_url: true }),
      picky: at('anthropic', upstream.url, {
        quirks: { remote_images: 'inline', drop_params: ['top_secret', 'tools'] },
      }),
    },
    models: [
      chatModel('acme/claude', [{ provider: 'claude', model: 'claude-x' }]),
      chatModel('acme/open', [{ provider: 'open', model: 'open-x' }]),
      chatModel('acme/both', [
        { provider: 'open', model: 'both-open', priority: 0 },
        { provider: 'claude', model: 'both-claude', priority: 1 },
      ]),
      chatModel('acme/two', [
        { provider: 'claude', model: 'two-first', priority: 0 },
        { provider: 'spare', model: 'two-second', priority: 1 },
      ]),
      chatModel('acme/elsewhere', [{ provider: 'elsewhere', model: 'elsewhere-x' }]),
      chatModel('acme/picky', [{ provider: 'picky', model: 'picky-x' }]),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
  spare.stop();
});
beforeEach(() => {
  upstream.reset();
  spare.reset();
});

const path = '/v1/messages/count_tokens';
const messages = [{ role: 'user', content: 'how are you' }];
const count = (body: object, options: SendOptions = {}) =>
  gateway.post({ messages, ...body }, { path, ...options });
const counting = (tokens: number) => chatAnswer('', { usage: { prompt: tokens } });

/** Expects an estimate for 3 short words. Providers in these tests return very different counts. */
async function expectEstimate(body: object, options: SendOptions = {}): Promise<void> {
  const reply = await count(body, options);
  expect(reply.status).toBe(200);
  expect(Object.keys(reply.json)).toEqual(['input_tokens']);
  expect(reply.json.input_tokens).toBeWithin(4, 40);
}

function sentRequest(at = -1) {
  const entry = upstream.requests.at(at);
  if (!entry || !isObject(entry.json))
    throw new Error('The upstream received no readable request.');
  return { path: entry.path, headers: entry.headers, body: entry.json };
}

test('count_tokens returns the number of tokens before context editing', async () => {
  const context_management = { original_input_tokens: 70_000 };
  upstream.script('claude-x', json(200, { input_tokens: 25_000, context_management }));
  const { json: answer } = await count({ model: 'acme/claude' });
  expect(answer).toEqual({ input_tokens: 25_000, context_management });
  upstream.script('claude-x', json(200, { input_tokens: 9, context_management: { of: 1 } }));
  expect((await count({ model: 'acme/claude' })).json).toEqual({ input_tokens: 9 });
});

describe('count_tokens recordings', () => {
  const recordings = Object.entries(
    JSON.parse(readFixture('expect.json')) as Record<string, { kind: string }>,
  ).filter(([, { kind }]) => kind === 'count');

  test('exist', () => expect(recordings).toHaveLength(1));

  test.each(recordings)('%s reaches the client', async (name, expected) => {
    upstream.script('claude-x', replay(readFixture(name)));
    const content = [{ type: 'text', text: 'What is the capital of France?' }];
    const reply = await count({ model: 'acme/claude', messages: [{ role: 'user', content }] });
    expect(reply.status).toBe(200);
    expect({ kind: 'count', dialect: 'anthropic', ...reply.json }).toEqual(expected as never);
    expect(sentRequest()).toMatchObject({
      path: '/v1/messages/count_tokens',
      body: { model: 'claude-x', messages: [{ role: 'user', content }] },
    });
  });
});

describe('count_tokens at an Anthropic-style provider', () => {
  test("forwards the client's fields with the operator's key", async () => {
    upstream.script('claude-x', counting(4_321));
    const fields = {
      system: [{ type: 'text', text: 'be brief', cache_control: { type: 'ephemeral' } }],
      tools: [{ name: 'look', input_schema: { type: 'object' } }],
      tool_choice: { type: 'auto' },
      thinking: { type: 'enabled', budget_tokens: 2_000 },
      context_management: { edits: [] },
    };
    const headers = {
      'anthropic-version': '2026-10-21',
      'anthropic-beta': 'token-counting-2024-11-01,other-beta',
    };
    const reply = await count({ model: 'acme/claude', ...fields }, { headers });
    expect(reply.json).toEqual({ input_tokens: 4_321 });
    const received = sentRequest();
    expect(received.body).toEqual({ model: 'claude-x', messages, ...fields });
    expect(received.headers).toMatchObject({ ...headers, 'x-api-key': 'sk-anthropic-operator' });
    expect(JSON.stringify(received.headers)).not.toContain(gateway.keys.routing);
  });

  test("drops the gateway's fields and fields about the answer", async () => {
    upstream.script('claude-x', counting(77));
    const gatewayFields = {
      models: ['acme/open'],
      provider: { order: ['claude'] },
      route: 'fallback',
      skills: [],
      plugins: [],
    };
    const answerFields = {
      max_tokens: 100,
      stream: true,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 3,
      stop_sequences: ['END'],
      metadata: { user_id: 'ann' },
      service_tier: 'auto',
      container: null,
      inference_geo: 'eu',
    };
    const unset = { system: null, tools: null, thinking: null };
    const reply = await count({
      model: 'acme/claude',
      ...gatewayFields,
      ...answerFields,
      ...unset,
    });
    expect(reply.json).toEqual({ input_tokens: 77 });
    expect(sentRequest().body).toEqual({ model: 'claude-x', messages });
  });

  test("drops other providers' thinking and parameters that a quirk drops", async () => {
    upstream.script('picky-x', counting(78));
    const foreign = { type: 'thinking', thinking: 'hm', signature: '' };
    const text = { type: 'text', text: 'Fine.' };
    const turns = [...messages, { role: 'assistant', content: [foreign, text] }, ...messages];
    const thinking = { type: 'enabled', budget_tokens: 2_000 };
    const tools = [{ name: 'look', input_schema: { type: 'object' } }];
    const refused = { tools, tool_choice: { type: 'auto' }, top_secret: 1 };
    await count({ model: 'acme/picky', messages: turns, thinking, ...refused });
    expect(sentRequest().body).toEqual({
      model: 'picky-x',
      messages: [...messages, { role: 'assistant', content: [text] }, ...messages],
    });
  });

  test.each([
    '/v1/messages/count_tokens?beta=true',
    '/messages/count_tokens',
    '/v1/v1/messages/count_tokens',
    '/anthropic/v1/messages/count_tokens',
    '/v1/anthropic/v1/messages/count_tokens',
    '/v1/anthropic/messages/count_tokens/',
  ])('is called for requests to %s', async (alternativePath) => {
    upstream.script('claude-x', counting(79));
    const reply = await count({ model: 'acme/claude' }, { path: alternativePath });
    expect(reply.json).toEqual({ input_tokens: 79 });
    expect(sentRequest().path).toBe('/v1/messages/count_tokens');
  });

  test('is called for a model whose first provider is OpenAI-style', async () => {
    upstream.script('both-claude', counting(80));
    expect((await count({ model: 'acme/both' })).json).toEqual({ input_tokens: 80 });
    expect(upstream.requests).toHaveLength(1);
  });

  test('is canceled when the client disconnects', async () => {
    upstream.script('claude-x', hangBeforeHeaders());
    const client = new AbortController();
    const canceled = count({ model: 'acme/claude' }, { signal: client.signal }).catch(
      () => 'canceled',
    );
    await upstream.until((requests) => requests.find(({ outcome }) => outcome === 'hung'));
    client.abort();
    expect(await canceled).toBe('canceled');
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
  });
});

describe('count_tokens calls no provider', () => {
  const web = { type: 'web_search', name: 'web_search' };
  const image = { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } };
  test.each<[string, object]>([
    ['for a model without an Anthropic-style provider', { model: 'acme/open' }],
    ['for an unknown model', { model: 'acme/unknown' }],
    ['for a later model in a chain', { model: 'acme/open', models: ['acme/claude'] }],
    ['that `only` excludes', { model: 'acme/both', provider: { only: ['open'] } }],
    ['that `ignore` excludes', { model: 'acme/both', provider: { ignore: ['claude'] } }],
    [
      'as a fallback if fallbacks are off',
      { model: 'acme/both', provider: { allow_fallbacks: false } },
    ],
    ['above max_price', { model: 'acme/claude', provider: { max_price: { prompt: 0.5 } } }],
    ["for the gateway's own web search", { model: 'acme/claude', tools: [web] }],
    [
      'for a web search that the client turns off',
      { model: 'acme/claude', tools: [{ type: web.type, external_web_access: false }] },
    ],
    ['for a model name with :online', { model: 'acme/claude:online' }],
  ])('%s', async (_, body) => {
    await expectEstimate(body);
    expect(upstream.requests).toHaveLength(0);
  });

  test('for an image that would have to be fetched first', async () => {
    const body = { model: 'acme/picky', messages: [{ role: 'user', content: [image] }] };
    expect((await count(body)).json).toEqual({ input_tokens: 1_604 });
    expect(upstream.requests).toHaveLength(0);
  });

  test('for an image at a private address', async () => {
    const privateImage = {
      type: 'image',
      source: { type: 'url', url: 'http://169.254.169.254/a.png' },
    };
    const reply = await count({
      model: 'acme/claude',
      messages: [{ role: 'user', content: [privateImage] }],
    });
    expect([reply.status, reply.error.message]).toEqual([
      400,
      "The image can't be fetched: The address is not public.",
    ]);
    expect(upstream.requests).toHaveLength(0);
  });

  test('if the key may not use the model', async () => {
    const key = await gateway.makeKey({ models: ['acme/open'] });
    const web = { type: 'web_search', name: 'web_search' };
    for (const body of [{}, { models: ['acme/both'] }, { tools: [web] }]) {
      const rejected = await count({ model: 'acme/claude', ...body }, { key });
      expect([rejected.status, rejected.json.type]).toEqual([403, 'error']);
      expect(rejected.error).toMatchObject({
        type: 'permission_error',
        message: 'This API key may not use the model "acme/claude".',
      });
    }
    expect((await count({ model: 'acme/claude:online' }, { key })).status).toBe(403);
    await expectEstimate({ model: 'acme/claude', models: ['acme/open'] }, { key });
    await expectEstimate({ model: 'acme/unknown' }, { key });
    expect(upstream.requests).toHaveLength(0);
  });

  test('for an invalid request', async () => {
    const reply = await count({ model: 'acme/claude', messages: [] });
    expect([reply.status, reply.error.type]).toEqual([400, 'invalid_request_error']);
    expect(reply.error.message).toStartWith('messages ');
    const tools = [{ type: 'web_search_20250305', name: 'web_search', max_uses: 'five' }];
    for (const model of ['acme/claude', 'acme/open']) {
      const { status, error } = await count({ model, tools });
      expect(status).toBe(400);
      expect(error.message).toStartWith('tools[0].max_uses ');
    }
    expect(upstream.requests).toHaveLength(0);
  });
});

describe('count_tokens returns an estimate if the provider', () => {
  const page = replay('<html><title>No</title></html>', { status: 400, contentType: 'text/html' });
  const usageLimit = 'You have reached your specified API usage limits.';
  const noCredits = 'Your credit balance is too low to access the Anthropic API.';
  test.each<[string, Behavior]>([
    ['rejects the key', status(401, 'invalid x-api-key')],
    ['forbids the account', status(403, 'not allowed')],
    ['reports an account without credits', status(400, noCredits)],
    ['reports an account at its usage limit', status(400, usageLimit)],
    ['has no count endpoint', status(404, 'Not found')],
    ['is rate limited', status429('7')],
    ['fails', status500()],
    ['is overloaded', status(529, 'Overloaded')],
    ['redirects', redirect('http://127.0.0.1:1/')],
    ['answers with HTML', htmlWith200()],
    ['rejects with HTML', page],
    ['rejects in an unknown format', json(400, { detail: 'no' })],
    ['sends an empty body', emptyBody()],
    ['sends truncated JSON', truncatedJson(16, counting(5_000))],
    ['sends no input_tokens', json(200, { tokens: 5_000 })],
    ['sends a negative count', json(200, { input_tokens: -5_000 })],
    ['sends a fraction', json(200, { input_tokens: 5_000.5 })],
    ['sends a string', json(200, { input_tokens: '5000' })],
    ['sends a long body', json(200, { input_tokens: 5_000, more: 'x'.repeat(16 * 1024) })],
    ['sends a compression bomb', compressionBomb(64 * 1024 * 1024)],
    [
      'sends a wrong content-encoding',
      json(200, { input_tokens: 5_000 }, { 'content-encoding': 'br' }),
    ],
  ])('%s', async (_, behavior) => {
    upstream.script('claude-x', behavior);
    await expectEstimate({ model: 'acme/claude' });
    expect(upstream.requests).toHaveLength(1);
  });

  test('resets the connection', async () => {
    upstream.script('claude-x', resetBeforeHeaders());
    await expectEstimate({ model: 'acme/claude' });
  });

  test("is already answering the tenant's maximum number of concurrent counts", async () => {
    // Create the tenant first, because the counts in flight have a deadline.
    const other = await gateway.makeTenant({ id: 'busy-neighbor', name: 'Neighbor' });
    upstream.script('claude-x', gated('go', 0, counting(5_000)));
    const inFlight = Array.from({ length: 32 }, () => count({ model: 'acme/claude' }));
    await upstream.until((requests) => requests.length === 32);
    await expectEstimate({ model: 'acme/claude' });
    expect(upstream.requests).toHaveLength(32);
    const neighbor = count({ model: 'acme/claude' }, { key: other });
    await upstream.until((requests) => requests.length === 33);
    upstream.open('go');
    for (const reply of await Promise.all([...inFlight, neighbor])) {
      expect(reply.json).toEqual({ input_tokens: 5_000 });
    }
    expect((await count({ model: 'acme/claude' })).json).toEqual({ input_tokens: 5_000 });
  });
});

test("count_tokens forwards the provider's rejection with names and keys replaced", async () => {
  const fault = 'claude-x: messages.0: sk-ant-1234567890 is no role';
  upstream.script('claude-x', status(400, fault));
  const reply = await count({ model: 'acme/claude' });
  expect(reply.status).toBe(400);
  expect(reply.json).toMatchObject({
    type: 'error',
    error: { type: 'invalid_request_error', message: 'acme/claude: messages.0: [key] is no role' },
  });
  expect(reply.headers.get('x-should-retry')).toBe('false');
});

test("count_tokens is free and isn't logged as a request", async () => {
  const credits = async () => (await gateway.get('/v1/customer/credits')).text;
  const logs = async () => (await gateway.get('/v1/customer/logs')).text;
  const before = [await credits(), await logs()];
  upstream.script('claude-x', [counting(1_000_000), status(400, 'no'), status500()]);
  const replies = [];
  for (let index = 0; index < 3; index += 1) replies.push(await count({ model: 'acme/claude' }));
  expect(replies.map((reply) => reply.status)).toEqual([200, 400, 200]);
  expect([await credits(), await logs()]).toEqual(before);
  expect((await gateway.get(`/v1/generation?id=${replies[0]?.requestId}`)).status).toBe(404);
});

describe("count_tokens with a tenant's own provider key", () => {
  test('uses only that key', async () => {
    const { key, setProviderKey } = await makeByokTenant(gateway, 'own-count');
    await setProviderKey('claude', { api_key: 'sk-own-account' });
    upstream.script('claude-x', [counting(81), status(401, 'no')]);
    expect((await count({ model: 'acme/claude' }, { key })).json).toEqual({ input_tokens: 81 });
    expect(sentRequest().headers['x-api-key']).toBe('sk-own-account');
    await expectEstimate({ model: 'acme/claude' }, { key });
    expect(upstream.requests.map(({ headers }) => headers['x-api-key'])).toEqual([
      'sk-own-account',
      'sk-own-account',
    ]);
  });

  test("doesn't use the operator's key in the mode byok_only", async () => {
    const { key, setProviderKey } = await makeByokTenant(gateway, 'only-count');
    await setProviderKey('open', { api_key: 'sk-own-account', mode: 'byok_only' });
    await expectEstimate({ model: 'acme/both' }, { key });
    expect(upstream.requests).toHaveLength(0);
  });

  test("doesn't call a base URL at a private address", async () => {
    const { id: tenantId, key } = await makeByokTenant(gateway, 'led-count');
    const vault = await Vault.open({
      store: gateway.store.credentials,
      secrets: secretKeysOf({ secretKey: null, dataDir: gateway.folder }),
      isStart: false,
    });
    // Bypass the check at creation, as if the name had resolved to a public address at that time.
    const credential = {
      tenantId,
      provider: 'elsewhere',
      apiKey: 'sk-own-account',
      baseUrl: `${upstream.url}/v1`,
      mode: 'byok_only',
    } as const;
    await vault.save(credential, Date.now());
    await expectEstimate({ model: 'acme/elsewhere' }, { key });
    const body = { model: 'acme/elsewhere', messages, max_tokens: 10 };
    const { error } = await gateway.post(body, { path: '/v1/messages', key });
    expect(error.message).toEndWith('rejected: The address is not public.');
    expect(upstream.requests).toHaveLength(0);
  });
});

describe('provider health', () => {
  const message = (model: string) =>
    gateway.post({ model, messages, max_tokens: 10 }, { path: '/v1/messages' });

  test('ignores failed counts', async () => {
    upstream.script('two-first', Array.from({ length: 8 }, status500));
    for (let index = 0; index < 8; index += 1) await expectEstimate({ model: 'acme/two' });
    upstream.script('two-first', chatAnswer('Still up.'));
    expect((await message('acme/two')).status).toBe(200);
    expect(sentRequest().path).toBe('/v1/messages');
    expect(spare.requests).toHaveLength(0);
  });

  test('moves counts to the next provider while the first provider is down', async () => {
    upstream.script('two-first', status500());
    for (let index = 0; index < 5; index += 1) await message('acme/two');
    const before = upstream.requests.length;
    spare.script('two-second', counting(82));
    expect((await count({ model: 'acme/two' })).json).toEqual({ input_tokens: 82 });
    expect(upstream.requests).toHaveLength(before);
  });
});
