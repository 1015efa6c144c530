/** Counting tokens over real sockets: who is asked, in which words, and what comes of it. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { Vault } from '../../src/auth/vault.ts';
import { isObject } from '../../src/core/json.ts';
import { secretKeysOf } from '../../src/store/secret-key.ts';
import { makeByokTenant } from '../support/byok.ts';
import {
  type Behavior,
  compressionBomb,
  emptyBody,
  gated,
  hangBeforeHeaders,
  htmlWith200,
  json,
  redirect,
  replay,
  resetBeforeHeaders,
  chatAnswer,
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

/** Three short words and what is around them; providers say numbers far from these. */
async function expectEstimate(body: object, options: SendOptions = {}): Promise<void> {
  const reply = await count(body, options);
  expect(reply.status).toBe(200);
  expect(Object.keys(reply.json)).toEqual(['input_tokens']);
  expect(reply.json.input_tokens).toBeWithin(4, 40);
}

function asked(at = -1) {
  const entry = upstream.requests.at(at);
  if (!entry || !isObject(entry.json)) throw new Error('The upstream was asked nothing readable.');
  return { path: entry.path, headers: entry.headers, body: entry.json };
}

test('what was counted before the provider left things out reaches the client', async () => {
  const context_management = { original_input_tokens: 70_000 };
  upstream.script('claude-x', json(200, { input_tokens: 25_000, context_management }));
  const { json: told } = await count({ model: 'acme/claude' });
  expect(told).toEqual({ input_tokens: 25_000, context_management });
  upstream.script('claude-x', json(200, { input_tokens: 9, context_management: { of: 1 } }));
  expect((await count({ model: 'acme/claude' })).json).toEqual({ input_tokens: 9 });
});

describe('a recorded count', () => {
  const recorded = Object.entries(
    JSON.parse(readFixture('expect.json')) as Record<string, { kind: string }>,
  ).filter(([, { kind }]) => kind === 'count');

  test('is among the recordings', () => expect(recorded).toHaveLength(1));

  test.each(recorded)('%s reaches the client', async (name, expected) => {
    upstream.script('claude-x', replay(readFixture(name)));
    const content = [{ type: 'text', text: 'What is the capital of France?' }];
    const reply = await count({ model: 'acme/claude', messages: [{ role: 'user', content }] });
    expect(reply.status).toBe(200);
    expect({ kind: 'count', dialect: 'anthropic', ...reply.json }).toEqual(expected as never);
    expect(asked()).toMatchObject({
      path: '/v1/messages/count_tokens',
      body: { model: 'claude-x', messages: [{ role: 'user', content }] },
    });
  });
});

describe('an Anthropic-style provider', () => {
  test('is asked in the client’s own words, with the operator’s key', async () => {
    upstream.script('claude-x', counting(4_321));
    const kept = {
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
    const reply = await count({ model: 'acme/claude', ...kept }, { headers });
    expect(reply.json).toEqual({ input_tokens: 4_321 });
    const sent = asked();
    expect(sent.body).toEqual({ model: 'claude-x', messages, ...kept });
    expect(sent.headers).toMatchObject({ ...headers, 'x-api-key': 'sk-anthropic-operator' });
    expect(JSON.stringify(sent.headers)).not.toContain(gateway.keys.routing);
  });

  test('hears nothing of our own words, nor of the answer that nobody wants', async () => {
    upstream.script('claude-x', counting(77));
    const ours = {
      models: ['acme/open'],
      provider: { order: ['claude'] },
      route: 'fallback',
      skills: [],
      plugins: [],
    };
    const answer = {
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
    const reply = await count({ model: 'acme/claude', ...ours, ...answer, ...unset });
    expect(reply.json).toEqual({ input_tokens: 77 });
    expect(asked().body).toEqual({ model: 'claude-x', messages });
  });

  test('gets no thoughts of other providers, and no parameter that it does not take', async () => {
    upstream.script('picky-x', counting(78));
    const foreign = { type: 'thinking', thinking: 'hm', signature: '' };
    const said = { type: 'text', text: 'Fine.' };
    const turns = [...messages, { role: 'assistant', content: [foreign, said] }, ...messages];
    const thinking = { type: 'enabled', budget_tokens: 2_000 };
    const tools = [{ name: 'look', input_schema: { type: 'object' } }];
    const refused = { tools, tool_choice: { type: 'auto' }, top_secret: 1 };
    await count({ model: 'acme/picky', messages: turns, thinking, ...refused });
    expect(asked().body).toEqual({
      model: 'picky-x',
      messages: [...messages, { role: 'assistant', content: [said] }, ...messages],
    });
  });

  test.each([
    '/v1/messages/count_tokens?beta=true',
    '/messages/count_tokens',
    '/v1/v1/messages/count_tokens',
    '/anthropic/v1/messages/count_tokens',
    '/v1/anthropic/v1/messages/count_tokens',
    '/v1/anthropic/messages/count_tokens/',
  ])('is asked for %s too', async (spelling) => {
    upstream.script('claude-x', counting(79));
    const reply = await count({ model: 'acme/claude' }, { path: spelling });
    expect(reply.json).toEqual({ input_tokens: 79 });
    expect(asked().path).toBe('/v1/messages/count_tokens');
  });

  test('counts for a model that others serve before it', async () => {
    upstream.script('both-claude', counting(80));
    expect((await count({ model: 'acme/both' })).json).toEqual({ input_tokens: 80 });
    expect(upstream.requests).toHaveLength(1);
  });

  test('is hung up on when the client leaves', async () => {
    upstream.script('claude-x', hangBeforeHeaders());
    const leaving = new AbortController();
    const left = count({ model: 'acme/claude' }, { signal: leaving.signal }).catch(() => 'left');
    await upstream.until((requests) => requests.find(({ outcome }) => outcome === 'hung'));
    leaving.abort();
    expect(await left).toBe('left');
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
  });
});

describe('nobody is asked', () => {
  const web = { type: 'web_search', name: 'web_search' };
  const picture = { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } };
  test.each<[string, object]>([
    ['for a model that no such provider serves', { model: 'acme/open' }],
    ['for a model that nobody knows', { model: 'acme/unheard-of' }],
    ['for a model that comes later in a chain', { model: 'acme/open', models: ['acme/claude'] }],
    ['against `only`', { model: 'acme/both', provider: { only: ['open'] } }],
    ['against `ignore`', { model: 'acme/both', provider: { ignore: ['claude'] } }],
    ['without fallbacks', { model: 'acme/both', provider: { allow_fallbacks: false } }],
    ['above the price', { model: 'acme/claude', provider: { max_price: { prompt: 0.5 } } }],
    ['about a search that is done here', { model: 'acme/claude', tools: [web] }],
    [
      'about a search that the client forbids, so that no tool is sent',
      { model: 'acme/claude', tools: [{ type: web.type, external_web_access: false }] },
    ],
    ['about a search by the model’s name', { model: 'acme/claude:online' }],
  ])('%s', async (_, body) => {
    await expectEstimate(body);
    expect(upstream.requests).toHaveLength(0);
  });

  test('about a picture that would have to be fetched first', async () => {
    const body = { model: 'acme/picky', messages: [{ role: 'user', content: [picture] }] };
    expect((await count(body)).json).toEqual({ input_tokens: 1_604 });
    expect(upstream.requests).toHaveLength(0);
  });

  test('about a picture inside our network, which no provider may be sent to', async () => {
    const inner = { type: 'image', source: { type: 'url', url: 'http://169.254.169.254/a.png' } };
    const reply = await count({
      model: 'acme/claude',
      messages: [{ role: 'user', content: [inner] }],
    });
    expect([reply.status, reply.error.message]).toEqual([
      400,
      "The image can't be fetched: The address is not public.",
    ]);
    expect(upstream.requests).toHaveLength(0);
  });

  test('for a key that may not use the model', async () => {
    const key = await gateway.makeKey({ models: ['acme/open'] });
    const web = { type: 'web_search', name: 'web_search' };
    for (const body of [{}, { models: ['acme/both'] }, { tools: [web] }]) {
      const refused = await count({ model: 'acme/claude', ...body }, { key });
      expect([refused.status, refused.json.type]).toEqual([403, 'error']);
      expect(refused.error).toMatchObject({
        type: 'permission_error',
        message: 'This API key may not use the model "acme/claude".',
      });
    }
    expect((await count({ model: 'acme/claude:online' }, { key })).status).toBe(403);
    await expectEstimate({ model: 'acme/claude', models: ['acme/open'] }, { key });
    await expectEstimate({ model: 'acme/unheard-of' }, { key });
    expect(upstream.requests).toHaveLength(0);
  });

  test('about a request that is wrong', async () => {
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

describe('the estimate answers in the place of a provider', () => {
  const page = replay('<html><title>No</title></html>', { status: 400, contentType: 'text/html' });
  const limited = 'You have reached your specified API usage limits.';
  const poor = 'Your credit balance is too low to access the Anthropic API.';
  test.each<[string, Behavior]>([
    ['that refuses the account', status(401, 'invalid x-api-key')],
    ['that refuses the account otherwise', status(403, 'not allowed')],
    ['whose account has no money', status(400, poor)],
    ['whose account is at its limit', status(400, limited)],
    ['that does not count', status(404, 'Not found')],
    ['that is rate limited', status429('7')],
    ['that fails', status500()],
    ['that is overloaded', status(529, 'Overloaded')],
    ['that redirects', redirect('http://127.0.0.1:1/')],
    ['that answers with a page', htmlWith200()],
    ['whose refusal is a page', page],
    ['whose refusal is in other words', json(400, { detail: 'no' })],
    ['that says nothing', emptyBody()],
    ['that says half of it', truncatedJson(16, counting(5_000))],
    ['that counts nothing', json(200, { tokens: 5_000 })],
    ['that counts below nothing', json(200, { input_tokens: -5_000 })],
    ['that counts in halves', json(200, { input_tokens: 5_000.5 })],
    ['that counts in words', json(200, { input_tokens: '5000' })],
    ['that goes on and on', json(200, { input_tokens: 5_000, more: 'x'.repeat(16 * 1024) })],
    ['that sends more than it seems', compressionBomb(64 * 1024 * 1024)],
    ['that calls it packed', json(200, { input_tokens: 5_000 }, { 'content-encoding': 'br' })],
  ])('%s', async (_, behavior) => {
    upstream.script('claude-x', behavior);
    await expectEstimate({ model: 'acme/claude' });
    expect(upstream.requests).toHaveLength(1);
  });

  test('that hangs up', async () => {
    upstream.script('claude-x', resetBeforeHeaders());
    await expectEstimate({ model: 'acme/claude' });
  });

  test('that has as many counts of the tenant under way as it may', async () => {
    // Made beforehand: those under way are waited for by the clock.
    const other = await gateway.makeTenant({ id: 'busy-neighbour', name: 'Neighbour' });
    upstream.script('claude-x', gated('go', 0, counting(5_000)));
    const under = Array.from({ length: 32 }, () => count({ model: 'acme/claude' }));
    await upstream.until((requests) => requests.length === 32);
    await expectEstimate({ model: 'acme/claude' });
    expect(upstream.requests).toHaveLength(32);
    const neighbour = count({ model: 'acme/claude' }, { key: other });
    await upstream.until((requests) => requests.length === 33);
    upstream.open('go');
    for (const reply of await Promise.all([...under, neighbour])) {
      expect(reply.json).toEqual({ input_tokens: 5_000 });
    }
    expect((await count({ model: 'acme/claude' })).json).toEqual({ input_tokens: 5_000 });
  });
});

test('a request that the provider faults is refused, in its words and our names', async () => {
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

test('a count is free, and no request: nothing is charged, held or written down', async () => {
  const credits = async () => (await gateway.get('/v1/customer/credits')).text;
  const logs = async () => (await gateway.get('/v1/customer/logs')).text;
  const before = [await credits(), await logs()];
  upstream.script('claude-x', [counting(1_000_000), status(400, 'no'), status500()]);
  const replies = [];
  for (let at = 0; at < 3; at += 1) replies.push(await count({ model: 'acme/claude' }));
  expect(replies.map((reply) => reply.status)).toEqual([200, 400, 200]);
  expect([await credits(), await logs()]).toEqual(before);
  expect((await gateway.get(`/v1/generation?id=${replies[0]?.requestId}`)).status).toBe(404);
});

describe('a tenant with an account of its own', () => {
  test('counts there, and there alone', async () => {
    const { key, bring } = await makeByokTenant(gateway, 'own-count');
    await bring('claude', { api_key: 'sk-own-account' });
    upstream.script('claude-x', [counting(81), status(401, 'no')]);
    expect((await count({ model: 'acme/claude' }, { key })).json).toEqual({ input_tokens: 81 });
    expect(asked().headers['x-api-key']).toBe('sk-own-account');
    await expectEstimate({ model: 'acme/claude' }, { key });
    expect(upstream.requests.map(({ headers }) => headers['x-api-key'])).toEqual([
      'sk-own-account',
      'sk-own-account',
    ]);
  });

  test('that wants nobody else’s is not counted on the operator’s', async () => {
    const { key, bring } = await makeByokTenant(gateway, 'only-count');
    await bring('open', { api_key: 'sk-own-account', mode: 'byok_only' });
    await expectEstimate({ model: 'acme/both' }, { key });
    expect(upstream.requests).toHaveLength(0);
  });

  test('at an address of its own is counted only where users may lead us', async () => {
    const { id: tenantId, key } = await makeByokTenant(gateway, 'led-count');
    const vault = await Vault.open({
      store: gateway.store.credentials,
      secrets: secretKeysOf({ secretKey: null, dataDir: gateway.folder }),
      isStart: false,
    });
    // As if the name had led elsewhere when it was given.
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
    expect(error.message).toEndWith('refused: The address is not public.');
    expect(upstream.requests).toHaveLength(0);
  });
});

describe('the health of a provider', () => {
  const message = (model: string) =>
    gateway.post({ model, messages, max_tokens: 10 }, { path: '/v1/messages' });

  test('is not judged by counts', async () => {
    upstream.script('two-first', Array.from({ length: 8 }, status500));
    for (let at = 0; at < 8; at += 1) await expectEstimate({ model: 'acme/two' });
    upstream.script('two-first', chatAnswer('still here'));
    expect((await message('acme/two')).status).toBe(200);
    expect(asked().path).toBe('/v1/messages');
    expect(spare.requests).toHaveLength(0);
  });

  test('decides who counts: the next one while the first is known to be down', async () => {
    upstream.script('two-first', status500());
    for (let at = 0; at < 5; at += 1) await message('acme/two');
    const before = upstream.requests.length;
    spare.script('two-second', counting(82));
    expect((await count({ model: 'acme/two' })).json).toEqual({ input_tokens: 82 });
    expect(upstream.requests).toHaveLength(before);
  });
});
