/**
 * Authentication, tenant isolation, route aliases, hints for unknown routes, and response headers
 * of a running gateway.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { isObject, parseJson } from '../../src/core/json.ts';
import { type Answer, type Gateway, startGateway } from '../support/gateway.ts';
import { within } from '../support/wait-until.ts';

const startMs = 120_000;
const chatBody = { model: 'demo/chat', messages: [{ role: 'user', content: 'Hello!' }] };

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
}, startMs);
afterAll(() => gateway.stop(), startMs);

function expectError(
  answer: Answer,
  status: number,
  type: string,
  code: string | number = type,
): void {
  expect(answer.error).toEqual({ message: expect.any(String), type, code, param: null });
  expect(answer.status).toBe(status);
}

describe('authentication', () => {
  test.each([
    ['a missing key', {}],
    ['an unknown key', { key: `sk-tg-${'x'.repeat(57)}` }],
    ['text that is not a key', { key: 'hello' }],
    ['an unknown admin token', { key: `sk-admin-${'x'.repeat(48)}` }],
    ['a scheme other than Bearer', { headers: { authorization: 'Digest a=b' } }],
  ])('returns 401 for %s on every route', async (_, credential) => {
    const chat = await gateway.chat(chatBody, { key: null, ...credential });
    expectError(chat, 401, 'invalid_api_key', 401);
    expect(chat.headers.get('x-should-retry')).toBe('false');
    for (const path of ['/v1/models', '/api/v1/keys', '/admin/v1/tenants']) {
      expectError(await gateway.call('GET', path, credential), 401, 'invalid_api_key');
    }
  });

  test('accepts the key in any header that an SDK uses, but not 2 different keys', async () => {
    const { api, management } = gateway.keys;
    for (const name of ['x-api-key', 'api-key', 'x-goog-api-key']) {
      const alone = await gateway.call('GET', '/v1/models', { headers: { [name]: api } });
      expect(alone.status).toBe(200);
    }
    const same = { key: api, headers: { 'x-api-key': api } };
    expect((await gateway.call('GET', '/v1/models', same)).status).toBe(200);
    const two = { key: api, headers: { 'x-api-key': management } };
    expectError(await gateway.call('GET', '/v1/models', two), 401, 'invalid_api_key');
  });
});

describe('tenant isolation', () => {
  let managementKey: string;
  let app: { id: string; key: string };

  beforeAll(async () => {
    await gateway.admin('POST', '/admin/v1/tenants', { id: 'acme', name: 'Acme' });
    const keys = '/admin/v1/tenants/acme/keys';
    const created = await gateway.admin('POST', keys, { name: 'manager', management: true });
    managementKey = String(created.body.key);
    const { body } = await gateway.admin('POST', keys, { name: 'app' });
    app = { id: String(isObject(body.data) ? body.data.id : ''), key: String(body.key) };
  });

  const idsOf = ({ body }: Answer) =>
    (Array.isArray(body.data) ? body.data : []).filter(isObject).map(({ id }) => id);

  test('lists only the keys of its own tenant', async () => {
    const ownIds = idsOf(await gateway.manage('GET', '/api/v1/keys'));
    const otherIds = idsOf(await gateway.call('GET', '/api/v1/keys', { key: managementKey }));
    expect(ownIds).toHaveLength(2);
    expect(otherIds).toHaveLength(2);
    expect(otherIds).toContain(app.id);
    expect(ownIds.filter((id) => otherIds.includes(id))).toEqual([]);
  });

  test('shows the current last_used_at in every response with the key', async () => {
    const path = `/api/v1/keys/${app.id}`;
    for (const [method, body] of [['GET'], ['PATCH', { name: 'an app' }]] as const) {
      const before = Date.now();
      await gateway.call('GET', '/v1/models', { key: app.key });
      const answer = await gateway.call(method, path, {
        key: managementKey,
        ...(body ? { body } : {}),
      });
      const { last_used_at } = isObject(answer.body.data) ? answer.body.data : {};
      expect(Date.parse(String(last_used_at))).toBeWithin(before, Date.now() + 1);
      const list = await gateway.call('GET', '/api/v1/keys', { key: managementKey });
      expect(list.text).toContain(`"last_used_at":"${last_used_at}"`);
    }
  });

  test("returns 404 for reading, changing, or deleting another tenant's key", async () => {
    const path = `/api/v1/keys/${app.id}`;
    for (const answer of [
      await gateway.manage('GET', path),
      await gateway.manage('PATCH', path, { disabled: true }),
      await gateway.manage('POST', `${path}/rotate`, {}),
      await gateway.manage('DELETE', path),
    ]) {
      expect(answer.status).toBe(404);
      expect(answer.text).not.toContain('acme');
    }
    expect((await gateway.call('GET', path, { key: managementKey })).status).toBe(200);
    expect((await gateway.call('GET', '/v1/models', { key: app.key })).status).toBe(200);
  });

  test("returns 404 for another tenant's request", async () => {
    const { headers } = await gateway.chat(chatBody);
    const path = `/v1/generation?id=${headers.get('x-request-id')}`;
    const read = (key: string) => gateway.call('GET', path, { key });
    expect((await read(gateway.keys.api)).status).toBe(200);
    expect((await read(app.key)).status).toBe(404);
  });
});

describe('the chat endpoint', () => {
  test.each([
    '/v1/chat/completions',
    '/chat/completions',
    '/v1/v1/chat/completions',
    '/v1/chat/completions/',
    '//v1//chat//completions',
    '/v1//chat/completions',
    '/openai/v1/chat/completions',
    '/openai/chat/completions',
    '/v1/openai/chat/completions',
    '/api/v1/chat/completions',
    '/v1/chat/completions/chat/completions',
    '/v1/chat/completions?api-version=2024-10-21',
  ])('accepts POST %s', async (path) => {
    const answer = await gateway.call('POST', path, { key: gateway.keys.api, body: chatBody });
    expect(answer.status).toBe(200);
    expect(answer.body.object).toBe('chat.completion');
  });

  test('includes usage and cost in streams by default only under /api/v1', async () => {
    const lastUsage = async (path: string) => {
      const call = { key: gateway.keys.api, body: { ...chatBody, stream: true } };
      const { text } = await gateway.call('POST', path, call);
      const chunks = text.match(/^data: \{.*$/gm) ?? [];
      const last = parseJson(chunks.at(-1)?.slice('data: '.length) ?? '');
      return isObject(last) ? (last.usage ?? null) : undefined;
    };
    const usage = await lastUsage('/api/v1/chat/completions');
    expect(usage).toEqual(expect.objectContaining({ cost: expect.any(Number) }));
    expect(await lastUsage('/v1/chat/completions')).toBeNull();
  });
});

/** Sends raw request lines without a host, as the health checks of some load balancers do. */
async function sendRaw(...lines: string[]): Promise<string> {
  const { hostname, port } = new URL(gateway.url);
  const answer = Promise.withResolvers<string>();
  let text = '';
  await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      open: (socket) => void socket.write(`${lines.join('\r\n')}\r\n\r\n`),
      data(_, bytes) {
        text += bytes.toString();
      },
      close: () => answer.resolve(text),
      error: (_, error) => answer.reject(error),
    },
  });
  return answer.promise;
}

describe('a request without a host', () => {
  test.each([
    ['HTTP/1.0', []],
    ['HTTP/1.1', ['Host:', 'Connection: close']],
  ])('reaches its route over %s', async (version, lines) => {
    expect(await sendRaw(`GET /readyz ${version}`, ...lines)).toContain('"status":"ok"');
    const key = `Authorization: Bearer ${gateway.keys.api}`;
    const logs = await sendRaw(`GET /v1/customer/logs?limit=7 ${version}`, key, ...lines);
    expect(logs).toContain('"limit":7');
    expect(await sendRaw(`GET /v1/jobs ${version}`, key, ...lines)).toContain('"data":[]');
    const admin = `Authorization: Bearer ${gateway.keys.admin}`;
    const overview = await sendRaw(`GET /admin/v1/overview ${version}`, admin, ...lines);
    expect(overview).toContain('"tenants":');
  });
});

describe('HTTP routes', () => {
  test.each([
    ['GET', '/'],
    ['HEAD', '/'],
    ['HEAD', '/api/hello'],
    ['GET', '/healthz'],
    ['GET', '/readyz'],
  ])('%s %s returns 200 without a key', async (method, path) => {
    const answer = await gateway.call(method, path);
    expect(answer.status).toBe(200);
    expect(answer.text === '').toBe(method === 'HEAD');
  });

  test('GET / links to the dashboard and the docs', async () => {
    const { dashboard, docs } = (await gateway.call('GET', '/')).body as Record<string, string>;
    for (const path of [dashboard, docs]) {
      const { status, headers } = await gateway.call('GET', String(path));
      expect([path, status]).toEqual([path, 200]);
      expect(headers.get('content-type')).toStartWith('text/html');
    }
  });

  test('allow browser requests from any origin with any header (CORS)', async () => {
    const headers = {
      origin: 'https://app.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,x-stainless-os',
      'access-control-request-private-network': 'true',
    };
    const preflight = await gateway.call('OPTIONS', '/v1/chat/completions', { headers });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-origin')).toBe('*');
    expect(preflight.headers.get('access-control-allow-headers')).toBe(
      'authorization,x-stainless-os',
    );
    expect(preflight.headers.get('access-control-allow-methods')).toContain('POST');
    expect(preflight.headers.get('access-control-allow-private-network')).toBe('true');
    const response = await gateway.chat(chatBody, { headers: { origin: 'https://app.example' } });
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
  });

  test.each(['/metrics', '/healthz', '/readyz', '/', '/dashboard', '/docs', '/admin/v1/tenants'])(
    'do not allow other origins to use %s',
    async (path) => {
      for (const method of ['GET', 'OPTIONS']) {
        const headers = { origin: 'https://app.example', 'access-control-request-method': 'GET' };
        const answer = await gateway.call(method, path, { headers });
        const names = [...answer.headers.keys()];
        expect(names.filter((name) => name.startsWith('access-control'))).toEqual([]);
      }
    },
  );

  test.each([
    ['GET', '/metrics'],
    ['GET', '/healthz'],
    ['GET', '/dashboard'],
    ['GET', '/docs'],
    ['GET', '/openapi.json'],
    ['GET', '/nothing'],
    ['GET', '/admin/v1/tenants'],
    ['GET', '/v1/models'],
    ['POST', '/v1/chat/completions'],
    ['OPTIONS', '/v1/chat/completions'],
  ])('%s %s has nosniff', async (method, path) => {
    const { headers } = await gateway.call(method, path);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
  });

  test.each([
    ['POST', '/v1/chat/completion', 'POST /v1/chat/completions'],
    ['GET', '/v1/model', 'GET /v1/models'],
    ['POST', '/api/v1/kyes', 'POST /api/v1/keys'],
    ['GET', '/admin/v1/tenant', 'GET /admin/v1/tenants'],
    ['GET', '/health', 'GET /healthz'],
    ['POST', '/v1/chat', 'POST /v1/chat/completions'],
    ['POST', '/v2/chat/completions', 'POST /v1/chat/completions'],
    ['POST', '/api/chat', 'POST /v1/chat/completions'],
    ['POST', '/v1/embed', 'POST /v1/embeddings'],
    ['POST', '/v1/images', 'POST /v1/images/generations'],
    ['POST', '/v1/speech', 'POST /v1/audio/speech'],
    ['POST', '/v1/keys', 'POST /api/v1/keys'],
    ['GET', '/credits', 'GET /api/v1/credits'],
    ['GET', '/v1/logs', 'GET /v1/customer/logs'],
    ['GET', '/health/liveliness', 'GET /healthz'],
  ])('%s %s returns a JSON 404 that suggests the closest route', async (method, path, near) => {
    const answer = await gateway.call(method, path);
    expect(answer.headers.get('content-type')).toStartWith('application/json');
    expectError(answer, 404, 'invalid_request_error');
    expect(answer.error.message).toBe(`Unknown route: ${method} ${path}. Did you mean ${near}?`);
  });

  test.each([
    ['POST', '/v1/sandboxes'],
    ['GET', '/v1/projects'],
  ])(
    '%s %s returns a 404 that names the nearest route but does not suggest it',
    async (method, path) => {
      const { error } = await gateway.call(method, path);
      const near = /(?:GET|POST) \/(?:api\/)?v1\/.+/.source;
      expect(error.message).toMatch(
        new RegExp(`The nearest route is ${near}; GET /docs lists all routes\\.$`),
      );
      expect(error.message).not.toContain('Did you mean');
    },
  );

  test.each(['/v1', '/v1/', '/api/v1', '/openai/v1', '/v1/anthropic'])(
    '%s returns a 404 that explains base URLs',
    async (path) => {
      const answer = await gateway.call('POST', path, { body: {} });
      expect(answer.status).toBe(404);
      expect(answer.error.message).toContain('This is a base URL');
      expect(answer.error.message).toContain('POST /v1/chat/completions');
    },
  );

  test.each([
    ['POST', '/v1/completions', 'POST /v1/chat/completions'],
    ['POST', '/v1/audio/translations', 'POST /v1/audio/transcriptions'],
    ['POST', '/v1/images/variations', 'POST /v1/images/edits'],
    ['POST', '/v1/rerank', 'POST /v1/embeddings'],
    ['POST', '/v1/moderations', 'POST /v1/chat/completions'],
    ['GET', '/v1/files', 'POST /v1/jobs'],
    ['POST', '/v1/batches', 'POST /v1/jobs'],
    ['GET', '/v1/messages/batches', 'POST /v1/jobs'],
    ['POST', '/v1/assistants', 'POST /v1/responses'],
    ['POST', '/v1/fine_tuning/jobs', "Use the provider's own API"],
    ['POST', '/api/generate', 'ends in /v1'],
    ['POST', '/openai/deployments/gpt-4o/chat/completions', 'ends in /v1'],
    ['POST', '/v1beta/models/gemini-2.5-pro:generateContent', 'POST /v1/chat/completions'],
    ['POST', '/v1/models/demo/chat:generateContent', 'POST /v1/chat/completions'],
    ['POST', '/v1/models/chat:streamGenerateContent', 'POST /v1/chat/completions'],
    ['POST', '/v1/responses/compact', 'Use POST /v1/responses'],
    ['POST', '/v1/responses/input_tokens', 'Use POST /v1/responses'],
  ])(
    '%s %s of another API returns a 404 that names an alternative',
    async (method, path, instead) => {
      const answer = await gateway.call(method, path);
      expect(answer.status).toBe(404);
      expect(answer.error.message).toStartWith(`Unknown route: ${method} ${path}. `);
      expect(answer.error.message).toContain(instead);
      expect(answer.error.message).not.toMatch(/nearest|Did you mean/);
    },
  );

  test.each(['/v1/responses', '/responses', '/openai/v1/responses', '/v1/v1/responses/'])(
    'POST %s accepts Responses API requests',
    async (path) => {
      const body = { model: chatBody.model, input: 'Hi!', instructions: 'Be kind.' };
      const answer = await gateway.call('POST', path, { key: gateway.keys.api, body });
      expect([answer.status, answer.body.object]).toEqual([200, 'response']);
    },
  );

  test.each([
    ['GET', '/v1/responses/resp_1'],
    ['DELETE', '/v1/responses/resp_1'],
    ['POST', '/v1/responses/resp_1/cancel'],
  ])('%s %s returns a 404 because responses are not stored', async (method, path) => {
    const answer = await gateway.call(method, path, { key: gateway.keys.api });
    expectError(answer, 404, 'invalid_request_error');
    expect(answer.error.message).toContain("Tollgate doesn't store responses");
  });

  test('return 405 with the allowed method if the method is wrong', async () => {
    const answer = await gateway.call('GET', '/v1/chat/completions');
    expectError(answer, 405, 'invalid_request_error', 405);
    expect(answer.headers.get('allow')).toBe('POST');
  });

  test.each(['edits', 'generations'])(
    'return 405 in the error format of the images API for GET /v1/images/%s',
    async (name) => {
      const answer = await gateway.call('GET', `/v1/images/${name}`);
      expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST']);
      const type = 'invalid_request_error';
      expect(answer.error).toEqual({ message: expect.any(String), type, code: type });
    },
  );

  test("send a unique request ID in OpenAI's and Anthropic's headers", async () => {
    const { api } = gateway.keys;
    const answers = [
      await gateway.call('GET', '/'),
      await gateway.call('HEAD', '/healthz'),
      await gateway.call('GET', '/readyz'),
      await gateway.call('GET', '/metrics'),
      await gateway.call('GET', '/openapi.json'),
      await gateway.call('GET', '/docs'),
      await gateway.call('GET', '/dashboard'),
      await gateway.call('OPTIONS', '/v1/models'),
      await gateway.call('GET', '/nowhere'),
      await gateway.call('GET', '/v1/chat/completions'),
      await gateway.call('GET', '/v1/models'),
      await gateway.call('GET', '/v1/models', { key: api }),
      await gateway.call('GET', '/api/v1/keys', { key: api }),
      await gateway.chat(chatBody),
      await gateway.chat({ ...chatBody, stream: true }),
      await gateway.chat({ ...chatBody, model: 'no/such' }),
      await gateway.chat({}, { body: 'not json' }),
    ];
    const ids = answers.map(({ headers }) => headers.get('x-request-id') ?? '');
    for (const id of ids) {
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    }
    expect(answers.map(({ headers }) => headers.get('request-id'))).toEqual(ids);
    expect(new Set(ids).size).toBe(answers.length);
  });

  test('send Cache-Control: no-store, whichever header contains the key', async () => {
    const { api, management, admin } = gateway.keys;
    const cacheControlOf = async (path: string, headers: Record<string, string> = {}) =>
      (await gateway.call('GET', path, { headers })).headers.get('cache-control');
    expect(await cacheControlOf('/v1/customer/logs', { 'x-api-key': api })).toBe('no-store');
    expect(await cacheControlOf('/v1/customer/logs/export.csv', { 'api-key': api })).toBe(
      'no-store',
    );
    expect(await cacheControlOf('/api/v1/keys', { 'x-api-key': management })).toBe('no-store');
    expect(await cacheControlOf('/api/v1/webhook-secret', { 'x-api-key': management })).toBe(
      'no-store',
    );
    expect(await cacheControlOf('/admin/v1/tenants', { 'x-api-key': admin })).toBe('no-store');
    expect(await cacheControlOf('/v1/models')).toBe('no-store');
    const created = await gateway.manage('POST', '/api/v1/keys', { name: 'shown once' });
    expect([created.status, created.headers.get('cache-control')]).toEqual([201, 'no-store']);
  });

  test.each([20_971_521, 700_000_000_000])(
    'return 413 for a Content-Length of %i before the body is sent',
    async (length) => {
      const reply = await rawRequest(
        gateway.url,
        `POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\n` +
          `Authorization: Bearer ${gateway.keys.api}\r\nContent-Type: application/json\r\n` +
          `Content-Length: ${length}\r\n\r\n`,
      );
      expect(reply).toStartWith('HTTP/1.1 413 ');
      expect(reply).toContain('20971520');
      expect(reply).toMatch(/\r\nx-request-id: /i);
    },
  );
});

/** Sends these bytes and returns the first bytes of the response. */
async function rawRequest(url: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const reply = Promise.withResolvers<string>();
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      data: (_, received) => reply.resolve(received.toString()),
      close: () => reply.reject(new Error('The connection was closed without a response.')),
    },
  });
  socket.write(bytes);
  const text = await within(reply.promise, 'the reply');
  socket.end();
  return text;
}
