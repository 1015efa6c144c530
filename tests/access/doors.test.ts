/** Who may enter where, and how the house looks from outside. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { isObject, parseJson } from '../../src/core/json.ts';
import { type Answer, type Gateway, startGateway } from '../support/gateway.ts';

const startMs = 120_000;
const ask = { model: 'demo/chat', messages: [{ role: 'user', content: 'Hello!' }] };

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
}, startMs);
afterAll(() => gateway.stop(), startMs);

function expectRefusal(answer: Answer, status: number, type: string): void {
  expect(answer.error).toEqual({ message: expect.any(String), type, code: status, param: null });
  expect(answer.status).toBe(status);
}

describe('at every door that is not open to anyone:', () => {
  test.each([
    ['no key', {}],
    ['an unknown key', { key: `sk-tg-${'x'.repeat(57)}` }],
    ['a text that is no key', { key: 'hello' }],
    ['an unknown admin token', { key: `sk-admin-${'x'.repeat(48)}` }],
    ['something else than a bearer', { headers: { authorization: 'Digest a=b' } }],
  ])('%s is 401 everywhere', async (_, credential) => {
    const chat = await gateway.chat(ask, { key: null, ...credential });
    expectRefusal(chat, 401, 'invalid_api_key');
    expect(chat.headers.get('x-should-retry')).toBe('false');
    for (const path of ['/v1/models', '/api/v1/keys', '/admin/v1/tenants']) {
      expectRefusal(await gateway.call('GET', path, credential), 401, 'invalid_api_key');
    }
  });

  test('the key may come in any SDK family’s header, but not two keys at once', async () => {
    const { api, management } = gateway.keys;
    for (const name of ['x-api-key', 'api-key', 'x-goog-api-key']) {
      const alone = await gateway.call('GET', '/v1/models', { headers: { [name]: api } });
      expect(alone.status).toBe(200);
    }
    const same = { key: api, headers: { 'x-api-key': api } };
    expect((await gateway.call('GET', '/v1/models', same)).status).toBe(200);
    const two = { key: api, headers: { 'x-api-key': management } };
    expectRefusal(await gateway.call('GET', '/v1/models', two), 401, 'invalid_api_key');
  });
});

describe('two tenants', () => {
  let manager: string;
  let app: { id: string; key: string };

  beforeAll(async () => {
    await gateway.admin('POST', '/admin/v1/tenants', { id: 'acme', name: 'Acme' });
    const keys = '/admin/v1/tenants/acme/keys';
    const made = await gateway.admin('POST', keys, { name: 'manager', management: true });
    manager = String(made.body.key);
    const { body } = await gateway.admin('POST', keys, { name: 'app' });
    app = { id: String(isObject(body.data) ? body.data.id : ''), key: String(body.key) };
  });

  const idsOf = ({ body }: Answer) =>
    (Array.isArray(body.data) ? body.data : []).filter(isObject).map(({ id }) => id);

  test('see only their own keys', async () => {
    const ours = idsOf(await gateway.manage('GET', '/api/v1/keys'));
    const theirs = idsOf(await gateway.call('GET', '/api/v1/keys', { key: manager }));
    expect(ours).toHaveLength(2);
    expect(theirs).toHaveLength(2);
    expect(theirs).toContain(app.id);
    expect(ours.filter((id) => theirs.includes(id))).toEqual([]);
  });

  test('see at once when a key was last used, by every answer that tells of it', async () => {
    const path = `/api/v1/keys/${app.id}`;
    for (const [method, body] of [['GET'], ['PATCH', { name: 'an app' }]] as const) {
      const before = Date.now();
      await gateway.call('GET', '/v1/models', { key: app.key });
      const answer = await gateway.call(method, path, { key: manager, ...(body ? { body } : {}) });
      const { last_used_at } = isObject(answer.body.data) ? answer.body.data : {};
      expect(Date.parse(String(last_used_at))).toBeWithin(before, Date.now() + 1);
      const list = await gateway.call('GET', '/api/v1/keys', { key: manager });
      expect(list.text).toContain(`"last_used_at":"${last_used_at}"`);
    }
  });

  test('cannot look at, change, rotate or delete each other’s keys', async () => {
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
    expect((await gateway.call('GET', path, { key: manager })).status).toBe(200);
    expect((await gateway.call('GET', '/v1/models', { key: app.key })).status).toBe(200);
  });

  test('cannot read each other’s requests', async () => {
    const { headers } = await gateway.chat(ask);
    const path = `/v1/generation?id=${headers.get('x-request-id')}`;
    const read = (key: string) => gateway.call('GET', path, { key });
    expect((await read(gateway.keys.api)).status).toBe(200);
    expect((await read(app.key)).status).toBe(404);
  });
});

describe('every spelling of the chat endpoint that clients use reaches it:', () => {
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
  ])('%s', async (path) => {
    const answer = await gateway.call('POST', path, { key: gateway.keys.api, body: ask });
    expect(answer.status).toBe(200);
    expect(answer.body.object).toBe('chat.completion');
  });

  test('only /api/v1 sends usage with its cost unasked', async () => {
    const lastUsage = async (path: string) => {
      const call = { key: gateway.keys.api, body: { ...ask, stream: true } };
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

/** One request as it is written; health checks of load balancers leave the host out. */
async function written(...lines: string[]): Promise<string> {
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

describe('a request that names no host reaches what it asks for:', () => {
  test.each([
    ['HTTP/1.0', []],
    ['HTTP/1.1', ['Host:', 'Connection: close']],
  ])('%s', async (version, lines) => {
    expect(await written(`GET /readyz ${version}`, ...lines)).toContain('"status":"ok"');
    const key = `Authorization: Bearer ${gateway.keys.api}`;
    const logs = await written(`GET /v1/customer/logs?limit=7 ${version}`, key, ...lines);
    expect(logs).toContain('"limit":7');
    expect(await written(`GET /v1/jobs ${version}`, key, ...lines)).toContain('"data":[]');
    const admin = `Authorization: Bearer ${gateway.keys.admin}`;
    const overview = await written(`GET /admin/v1/overview ${version}`, admin, ...lines);
    expect(overview).toContain('"tenants":');
  });
});

describe('the front of the house:', () => {
  test.each([
    ['GET', '/'],
    ['HEAD', '/'],
    ['HEAD', '/api/hello'],
    ['GET', '/healthz'],
    ['GET', '/readyz'],
  ])('%s %s answers 200 to anybody', async (method, path) => {
    const answer = await gateway.call(method, path);
    expect(answer.status).toBe(200);
    expect(answer.text === '').toBe(method === 'HEAD');
  });

  test('GET / leads on to the pages for people', async () => {
    const { dashboard, docs } = (await gateway.call('GET', '/')).body as Record<string, string>;
    for (const path of [dashboard, docs]) {
      const { status, headers } = await gateway.call('GET', String(path));
      expect([path, status]).toEqual([path, 200]);
      expect(headers.get('content-type')).toStartWith('text/html');
    }
  });

  test('a browser may send any header from anywhere', async () => {
    const headers = {
      origin: 'https://app.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,x-stainless-os',
      'access-control-request-private-network': 'true',
    };
    const asked = await gateway.call('OPTIONS', '/v1/chat/completions', { headers });
    expect(asked.status).toBe(204);
    expect(asked.headers.get('access-control-allow-origin')).toBe('*');
    expect(asked.headers.get('access-control-allow-headers')).toBe('authorization,x-stainless-os');
    expect(asked.headers.get('access-control-allow-methods')).toContain('POST');
    expect(asked.headers.get('access-control-allow-private-network')).toBe('true');
    const answered = await gateway.chat(ask, { headers: { origin: 'https://app.example' } });
    expect(answered.headers.get('access-control-allow-origin')).toBe('*');
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
  ])('%s %s is a JSON 404 that names the nearest route', async (method, path, near) => {
    const answer = await gateway.call(method, path);
    expect(answer.headers.get('content-type')).toStartWith('application/json');
    expectRefusal(answer, 404, 'invalid_request_error');
    expect(answer.error.message).toBe(`There is no ${method} ${path}. Did you mean ${near}?`);
  });

  test.each([
    ['POST', '/v1/sandboxes'],
    ['GET', '/v1/projects'],
  ])('%s %s is like no route, and nobody is asked whether it was meant', async (method, path) => {
    const { error } = await gateway.call(method, path);
    const near = /(?:GET|POST) \/(?:api\/)?v1\/.+/.source;
    expect(error.message).toMatch(
      new RegExp(`The nearest route is ${near}; GET /docs lists all routes\\.$`),
    );
    expect(error.message).not.toContain('Did you mean');
  });

  test.each(['/v1', '/v1/', '/api/v1', '/openai/v1', '/v1/anthropic'])(
    '%s alone is a base URL, and told the rest',
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
    ['POST', '/v1/responses/compact', 'Use POST /v1/responses'],
    ['POST', '/v1/responses/input_tokens', 'Use POST /v1/responses'],
  ])('%s %s of other APIs is told what to call instead', async (method, path, instead) => {
    const answer = await gateway.call(method, path);
    expect(answer.status).toBe(404);
    expect(answer.error.message).toStartWith(`There is no ${method} ${path}. `);
    expect(answer.error.message).toContain(instead);
    expect(answer.error.message).not.toMatch(/nearest|Did you mean/);
  });

  test.each(['/v1/responses', '/responses', '/openai/v1/responses', '/v1/v1/responses/'])(
    '%s answers a client of the Responses API',
    async (path) => {
      const body = { model: ask.model, input: 'Hi!', instructions: 'Be kind.' };
      const answer = await gateway.call('POST', path, { key: gateway.keys.api, body });
      expect([answer.status, answer.body.object]).toEqual([200, 'response']);
    },
  );

  test.each([
    ['GET', '/v1/responses/resp_1'],
    ['DELETE', '/v1/responses/resp_1'],
    ['POST', '/v1/responses/resp_1/cancel'],
  ])('%s %s says that nothing is kept', async (method, path) => {
    const answer = await gateway.call(method, path, { key: gateway.keys.api });
    expectRefusal(answer, 404, 'invalid_request_error');
    expect(answer.error.message).toContain('POST /v1/responses answers at once and keeps nothing');
  });

  test('the wrong method is told the right one', async () => {
    const answer = await gateway.call('GET', '/v1/chat/completions');
    expectRefusal(answer, 405, 'invalid_request_error');
    expect(answer.headers.get('allow')).toBe('POST');
  });

  test.each(['edits', 'generations'])(
    'a wrong method on images/%s is told in the words of images',
    async (name) => {
      const answer = await gateway.call('GET', `/v1/images/${name}`);
      expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST']);
      const type = 'invalid_request_error';
      expect(answer.error).toEqual({ message: expect.any(String), type, code: type });
    },
  );

  test('every answer carries its own request id, in both families’ headers', async () => {
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
      await gateway.chat(ask),
      await gateway.chat({ ...ask, stream: true }),
      await gateway.chat({ ...ask, model: 'no/such' }),
      await gateway.chat({}, { body: 'not json' }),
    ];
    const ids = answers.map(({ headers }) => headers.get('x-request-id') ?? '');
    for (const id of ids) {
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    }
    expect(answers.map(({ headers }) => headers.get('request-id'))).toEqual(ids);
    expect(new Set(ids).size).toBe(answers.length);
  });

  test('no cache keeps an answer, whichever header brought the key', async () => {
    const { api, management, admin } = gateway.keys;
    const kept = async (path: string, headers: Record<string, string> = {}) =>
      (await gateway.call('GET', path, { headers })).headers.get('cache-control');
    expect(await kept('/v1/customer/logs', { 'x-api-key': api })).toBe('no-store');
    expect(await kept('/v1/customer/logs/export.csv', { 'api-key': api })).toBe('no-store');
    expect(await kept('/api/v1/keys', { 'x-api-key': management })).toBe('no-store');
    expect(await kept('/api/v1/webhook-secret', { 'x-api-key': management })).toBe('no-store');
    expect(await kept('/admin/v1/tenants', { 'x-api-key': admin })).toBe('no-store');
    expect(await kept('/v1/models')).toBe('no-store');
    const made = await gateway.manage('POST', '/api/v1/keys', { name: 'shown once' });
    expect([made.status, made.headers.get('cache-control')]).toEqual([201, 'no-store']);
  });

  test.each([20_971_521, 700_000_000_000])(
    'a body that is declared too large is refused before it is sent: %i bytes',
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

/** Sends these bytes and nothing more; answers with the first bytes that come back. */
async function rawRequest(url: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const reply = Promise.withResolvers<string>();
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      data: (_, received) => reply.resolve(received.toString()),
      close: () => reply.reject(new Error('The connection was closed without an answer.')),
    },
  });
  socket.write(bytes);
  const text = await reply.promise;
  socket.end();
  return text;
}
