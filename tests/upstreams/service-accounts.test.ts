/** Google service accounts, whose keys are exchanged for a token before each provider call. */
import { afterAll, beforeAll, beforeEach, describe, expect, spyOn, test } from 'bun:test';
import { dataOf, makeByokTenant } from '../support/byok.ts';
import {
  type Behavior,
  chatAnswer,
  hangBeforeHeaders,
  json,
  replay,
  startFakeUpstream,
  status,
} from '../support/fake-upstream.ts';
import { chatModel, contentOf, InProcessGateway } from '../support/in-process.ts';
import { privateLine, serviceAccount } from '../support/service-account.ts';
import { readFixture } from '../support/upstream-conformance.ts';

const upstream = startFakeUpstream();
const messages = [{ role: 'user', content: 'Hello!' }];
const vertex = `${upstream.url}/v1/projects/acme/locations/eu/publishers`;
const google = 'https://oauth2.googleapis.com/token';
/** Tokens are cached for the lifetime of the process, so each test has its own account. */
const accounts = ['shared', 'brief', 'renewed', 'rejected', 'broken', 'silent'];
const account = (name: string) => serviceAccount(`${upstream.url}/token/${name}`);

let gateway: InProcessGateway;
beforeAll(async () => {
  const gemini = { dialect: 'gemini', base_url: `${vertex}/google` };
  const entries = accounts.map((name) => [name, { ...gemini, api_key: account(name) }] as const);
  const { silent, ...others } = Object.fromEntries(entries);
  gateway = await InProcessGateway.start({
    providers: {
      ...others,
      silent: { ...silent, timeout_ms: 200 },
      compatible: {
        dialect: 'openai',
        base_url: `${upstream.url}/v1/projects/acme/locations/eu/endpoints/openapi`,
        api_key: account('shared'),
      },
      claude: {
        dialect: 'anthropic',
        base_url: `${vertex}/anthropic`,
        api_key: account('shared'),
        quirks: { hosted_by: 'vertex' },
      },
      backup: { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-backup-0123' },
    },
    models: [
      ...accounts.map((name) =>
        chatModel(`acme/${name}`, [
          { provider: name, model: 'gem-up', priority: 0 },
          { provider: 'backup', model: 'backup', priority: 1 },
        ]),
      ),
      chatModel('acme/compatible', [{ provider: 'compatible', model: 'google/gem-up' }]),
      chatModel('acme/claude', [{ provider: 'claude', model: 'claude-large@20260101' }]),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => {
  upstream.reset();
  upstream.script('backup', chatAnswer('From the backup.'));
  upstream.script(gemPath, gemini('From Vertex.'));
});

const gemPath = '/v1/projects/acme/locations/eu/publishers/google/models/gem-up:generateContent';
const gemini = (text: string) =>
  json(200, {
    candidates: [{ content: { role: 'model', parts: [{ text }] }, finishReason: 'STOP' }],
    usageMetadata: { promptTokenCount: 2, candidatesTokenCount: 2, totalTokenCount: 4 },
  });

const token = (text: string, seconds = 3_599): Behavior =>
  json(200, { access_token: text, expires_in: seconds, token_type: 'Bearer' });

/** Returns the requested paths and their tokens, in order. */
const sentRequests = () =>
  upstream.requests.map(({ path, headers }) => {
    const name = path.startsWith('/token') ? 'token' : (path.split('/').at(-1) ?? '');
    return [name, headers.authorization?.replace('Bearer ', '') ?? null] as const;
  });
const chat = (model: string) => gateway.post({ model: `acme/${model}`, messages });
const generate = 'gem-up:generateContent';

test('a service account uses one token for all its requests and providers', async () => {
  upstream.script('/token/shared', token('ya29.shared'));
  const replies = await Promise.all(Array.from({ length: 5 }, () => chat('shared')));
  expect(replies.map(contentOf)).toEqual(Array.from({ length: 5 }, () => 'From Vertex.'));
  expect((await chat('compatible')).status).toBe(200);
  expect(sentRequests()).toEqual([
    ['token', null],
    ...Array.from({ length: 5 }, () => [generate, 'ya29.shared'] as const),
    ['completions', 'ya29.shared'],
  ]);
  expect(upstream.requests[1]?.headers).not.toHaveProperty('x-goog-api-key');
});

test('a service account renews a token in its last minute', async () => {
  upstream.script('/token/brief', [token('ya29.a', 60), token('ya29.b', 60)]);
  for (const reply of [await chat('brief'), await chat('brief')]) expect(reply.status).toBe(200);
  expect(sentRequests().map(([, sentToken]) => sentToken)).toEqual([
    null,
    'ya29.a',
    null,
    'ya29.b',
  ]);
});

test('a service account renews a token once after a 401 if the token worked before', async () => {
  upstream.script('/token/renewed', [token('ya29.old'), token('ya29.new')]);
  await chat('renewed');
  upstream.script(gemPath, [status(401), gemini('After all.'), status(401)]);
  expect(contentOf(await chat('renewed'))).toBe('After all.');
  expect(sentRequests()).toEqual([
    ['token', null],
    [generate, 'ya29.old'],
    [generate, 'ya29.old'],
    ['token', null],
    [generate, 'ya29.new'],
  ]);
  // Now the provider rejects the account, even with a new token.
  expect(contentOf(await chat('renewed'))).toBe('From the backup.');
  expect(sentRequests().slice(5)).toEqual([
    [generate, 'ya29.new'],
    ['token', null],
    [generate, 'ya29.new'],
    ['completions', 'sk-backup-0123'],
  ]);
});

test("a service account doesn't renew a token that never worked", async () => {
  upstream.script('/token/rejected', token('ya29.rejected'));
  upstream.script(gemPath, status(401, 'The token ya29.rejected is not valid.'));
  const reply = await chat('rejected');
  expect(contentOf(reply)).toBe('From the backup.');
  expect(sentRequests().map(([name]) => name)).toEqual(['token', generate, 'completions']);
  const { attempts } = await gateway.record(reply.requestId);
  expect(attempts[0]).toMatchObject({
    outcome: 'credential',
    message: 'The token [key] is not valid.',
  });
});

test.each([
  ['broken', json(400, { error: 'invalid_grant', error_description: privateLine }), 'credential'],
  ['broken', status(500), 'unreachable'],
  ['silent', hangBeforeHeaders(), 'timeout'],
] as const)('a failed token request (%s, %#) falls back to the next provider', async (...row) => {
  const [name, answer, outcome] = row;
  upstream.script(`/token/${name}`, answer);
  const reply = await chat(name);
  expect(contentOf(reply)).toBe('From the backup.');
  const { attempts } = await gateway.record(reply.requestId);
  expect(attempts.map((attempt) => attempt.outcome)).toEqual([outcome, 'answered']);
  expect(sentRequests().map(([path]) => path)).toEqual(['token', 'completions']);
  const visible = reply.text + JSON.stringify(attempts) + gateway.logLines.join('');
  expect(visible).not.toContain(privateLine);
});

describe('Claude on Vertex AI', () => {
  beforeEach(() => upstream.script('/token/shared', token('ya29.shared')));

  const lastRequest = () => upstream.requests.at(-1);
  const path = (name: string) =>
    `/v1/projects/acme/locations/eu/publishers/anthropic/models/${name}`;
  const version = { anthropic_version: 'vertex-2023-10-16' };
  const answer = json(200, {
    type: 'message',
    role: 'assistant',
    model: 'claude-large-20260101',
    content: [{ type: 'text', text: 'From the cloud.' }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 2, output_tokens: 3 },
  });

  test('receives messages unchanged except for model and version', async () => {
    upstream.script(path('claude-large@20260101:rawPredict'), answer);
    const body =
      '{"model":"acme/claude","max_tokens":9,"messages":[{"role":"user","content":"a"}],'.concat(
        '"novelty":12345678901234567890}',
      );
    const headers = { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'some-beta-2026' };
    const reply = await gateway.post(body, { path: '/v1/messages', headers });
    expect(reply.json).toMatchObject({ model: 'acme/claude', content: [{ type: 'text' }] });
    expect(lastRequest()?.path).toBe(path('claude-large@20260101:rawPredict'));
    expect(lastRequest()?.json).toEqual({
      max_tokens: 9,
      messages: [{ role: 'user', content: 'a' }],
      novelty: expect.any(Number),
      ...version,
    });
    expect(Buffer.from(lastRequest()?.raw ?? []).toString()).toContain(
      '"novelty":12345678901234567890',
    );
    expect(lastRequest()?.headers).toMatchObject({
      authorization: 'Bearer ya29.shared',
      'anthropic-beta': 'some-beta-2026',
    });
    expect(lastRequest()?.headers).not.toHaveProperty('anthropic-version');
    expect(lastRequest()?.headers).not.toHaveProperty('x-api-key');
  });

  test('streams for chat clients at its streaming path', async () => {
    const streamed = replay(readFixture('anthropic/text-stream.sse'), {
      contentType: 'text/event-stream',
    });
    upstream.script(path('claude-large@20260101:streamRawPredict'), streamed);
    const reply = await gateway.stream({ model: 'acme/claude', messages });
    expect(reply.content).toBe('1\n2\n3');
    expect(lastRequest()?.path).toBe(path('claude-large@20260101:streamRawPredict'));
    expect(lastRequest()?.json).toMatchObject({ stream: true, ...version });
    expect(lastRequest()?.json).not.toHaveProperty('model');
  });

  test('counts tokens for all models at the same path, and without betas', async () => {
    upstream.script(path('count-tokens:rawPredict'), json(200, { input_tokens: 42 }));
    const body = { model: 'acme/claude', messages };
    const headers = { 'anthropic-beta': 'some-beta-2026' };
    const reply = await gateway.post(body, { path: '/v1/messages/count_tokens', headers });
    expect(reply.json).toEqual({ input_tokens: 42 });
    expect(lastRequest()?.json).toEqual({ model: 'claude-large@20260101', messages, ...version });
    expect(lastRequest()?.headers).not.toHaveProperty('anthropic-beta');
  });
});

describe("a tenant's own service account", () => {
  test("must have Google's token_uri", async () => {
    const tenant = await makeByokTenant(gateway, 'inside');
    const put = await tenant.setProviderKey('shared', { api_key: account('shared') });
    expect([put.status, put.error.param]).toEqual([400, 'api_key']);
    expect(put.error.message).toBe(`api_key must have the token_uri ${google}.`);
    expect(upstream.requests).toEqual([]);
  });

  test('is rejected with the name of the invalid field, but not its value', async () => {
    const tenant = await makeByokTenant(gateway, 'invalid');
    const invalid = serviceAccount(google, { client_email: `${privateLine} twice` });
    const put = await tenant.setProviderKey('shared', { api_key: invalid });
    expect([put.status, put.error.param]).toEqual([400, 'api_key']);
    expect(put.error.message).toContain('client_email');
    expect(put.text).not.toContain(privateLine);
  });

  test('uses its own token', async () => {
    const tenant = await makeByokTenant(gateway, 'outside');
    const own = serviceAccount(google, { client_email: 'tenant@own.iam.gserviceaccount.com' });
    const put = await tenant.setProviderKey('shared', { api_key: own, mode: 'byok_only' });
    expect(put.status).toBe(200);
    expect(put.text).not.toContain(privateLine);
    expect(dataOf(put).label).not.toContain('\n');
    // Tests can't reach Google, so the fake upstream replaces it.
    const realFetch = globalThis.fetch;
    const toFake = (url: string | URL | Request, init?: RequestInit) =>
      realFetch(url === google ? `${upstream.url}/token/google` : url, init);
    const spy = spyOn(globalThis, 'fetch').mockImplementation(
      Object.assign(toFake, { preconnect: realFetch.preconnect }),
    );
    try {
      upstream.script('/token/google', token('ya29.own'));
      const reply = await tenant.chat({ model: 'acme/shared', messages });
      expect(contentOf(reply)).toBe('From Vertex.');
      await tenant.chat({ model: 'acme/shared', messages });
    } finally {
      spy.mockRestore();
    }
    expect(sentRequests()).toEqual([
      ['token', null],
      [generate, 'ya29.own'],
      [generate, 'ya29.own'],
    ]);
  });
});

test("service accounts' keys and tokens aren't logged", () => {
  const logged = gateway.logLines.join('');
  expect(logged).toContain('acme/shared');
  expect(logged).not.toMatch(/ya29\.|BEGIN PRIVATE KEY/);
  expect(logged).not.toContain(privateLine);
});
