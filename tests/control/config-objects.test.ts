/** Providers, models, and settings that are created over the API apply without a file. */
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { fieldsOf, objectsIn } from '../../src/core/json.ts';
import { chatAnswer, startFakeUpstream, words } from '../support/fake-upstream.ts';
import { InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
afterAll(() => upstream.stop());
beforeEach(async () => {
  upstream.reset();
  gateway = await InProcessGateway.start({
    providers: {
      'in-file': { dialect: 'openai', base_url: upstream.url, api_key: 'sk-in-file-0123' },
    },
    models: [],
  });
});
afterEach(() => gateway.stop());

type Headers = Readonly<Record<string, string>>;

const secret = 'sk-scripted-0123456789abcd';
const provider = () => ({
  dialect: 'openai',
  base_url: `${upstream.url}/v1`,
  api_key: secret,
  headers: { 'x-team': 'team-secret-0123' },
});
const model = (prompt = '1', completion = '1') => ({
  name: 'Scripted',
  input_modalities: ['text'],
  output_modalities: ['text'],
  endpoints: [{ provider: 'scripted', model: 'chat-1', pricing: { prompt, completion } }],
});

async function send(method: string, path: string, body?: object, headers: Headers = {}) {
  const response = await fetch(`${gateway.url}/admin/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${gateway.keys.admin}`, ...headers },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const json = fieldsOf(JSON.parse(text));
  const error = fieldsOf(json.error);
  const { status } = response;
  return {
    status,
    text,
    etag: response.headers.get('etag'),
    data: fieldsOf(json.data),
    json,
    error,
  };
}

const chat = () =>
  gateway.post({ model: 'acme/scripted', messages: [{ role: 'user', content: 'one two' }] });

async function createBoth(): Promise<void> {
  expect((await send('PUT', '/providers/scripted', provider())).status).toBe(201);
  expect((await send('PUT', '/models/acme/scripted', model())).status).toBe(201);
}

describe('configuration objects in the store', () => {
  test('serve the next request, with their prices', async () => {
    expect((await chat()).status).toBe(404);
    await createBoth();
    upstream.script('chat-1', chatAnswer(words(6)));
    const first = await chat();
    expect(first.status).toBe(200);
    expect(fieldsOf(first.json.usage).cost).toBe(8);
    const [request] = upstream.requests;
    expect(request?.headers.authorization).toBe(`Bearer ${secret}`);
    expect(request?.headers['x-team']).toBe('team-secret-0123');

    const price = { endpoints: model('100', '1000').endpoints };
    expect((await send('PATCH', '/models/acme/scripted', price)).status).toBe(200);
    expect(fieldsOf((await chat()).json.usage).cost).toBe(6200);
  });

  test('show labels in place of secrets, which stay as they are when sent back', async () => {
    const created = await send('PUT', '/providers/scripted', provider());
    const shown = { ...provider(), api_key: '•••abcd', headers: { 'x-team': '•••0123' } };
    expect(created.data).toMatchObject({ name: 'scripted', owner: 'store', config: shown });
    const read = await send('GET', '/providers/scripted');
    expect(read.data).toEqual(created.data);
    expect(read.text + (await send('GET', '/providers')).text).not.toContain(secret);

    const { api_key: _, ...withoutKey } = shown;
    const again = await send('PUT', '/providers/scripted', { ...withoutKey, timeout_ms: 5000 });
    expect(again.status).toBe(200);
    await send('PUT', '/models/acme/scripted', model());
    await chat();
    expect(upstream.requests.at(-1)?.headers.authorization).toBe(`Bearer ${secret}`);
    expect(upstream.requests.at(-1)?.headers['x-team']).toBe('team-secret-0123');

    const removed = await send('PATCH', '/providers/scripted', { headers: null, api_key: null });
    expect(removed.data.config).not.toContainKey('headers');
    await chat();
    expect(upstream.requests.at(-1)?.headers.authorization).toBeUndefined();
    const rows = await gateway.store.database.read
      .selectFrom('config_objects')
      .select('document')
      .execute();
    expect(JSON.stringify(rows)).not.toContain(secret);
  });

  test('keep each of several keys by its name when its label is sent back', async () => {
    const path = '/providers/scripted';
    const { api_key: _, ...rest } = provider();
    const keyOf = (name: string) => ({ name, key: `sk-several-${name}-0123456789` });
    const api_keys = [keyOf('aaaa'), { ...keyOf('bbbb'), disabled: true }];
    const created = await send('PUT', path, { ...rest, api_keys });
    expect(fieldsOf(created.data.config).api_keys).toEqual([
      { name: 'aaaa', key: '•••6789' },
      { name: 'bbbb', key: '•••6789', disabled: true },
    ]);
    await send('PUT', '/models/acme/scripted', model());
    const key = '•••6789';
    const swapped = [
      { name: 'bbbb', key },
      { name: 'aaaa', key, disabled: true },
    ];
    expect((await send('PATCH', path, { api_keys: swapped })).error).toEqual({});
    await chat();
    const { headers } = upstream.requests.at(-1) ?? {};
    expect(headers?.authorization).toBe('Bearer sk-several-bbbb-0123456789');
    const { data } = await send('GET', path);
    const states = objectsIn(data.keys).map(({ name, state }) => [name, state]);
    expect(states).toEqual([
      ['bbbb', 'available'],
      ['aaaa', 'disabled'],
    ]);
    const both = await send('PATCH', path, { api_key: secret });
    expect(both.error).toMatchObject({ param: 'api_keys' });
    const single = await send('PATCH', path, { api_key: secret, api_keys: null });
    expect([single.status, fieldsOf(single.data.config).api_keys]).toEqual([200, undefined]);
    const rows = await gateway.store.database.read
      .selectFrom('config_objects')
      .select('document')
      .execute();
    expect(JSON.stringify(rows)).not.toContain('several');
  });

  test('do not send a stored secret to another server', async () => {
    await send('PUT', '/providers/scripted', provider());
    const moved = await send('PATCH', '/providers/scripted', { base_url: 'http://127.0.0.1:9/v1' });
    expect(moved.status).toBe(400);
    expect(moved.error).toMatchObject({ param: 'api_key' });
    expect(moved.error.message).toContain('api_key must be sent again');
    const other = { base_url: `${upstream.url}/v2` };
    expect((await send('PATCH', '/providers/scripted', other)).status).toBe(200);
  });

  test('have versions, so that two editors do not overwrite each other', async () => {
    const path = '/providers/scripted';
    const created = await send('PUT', path, provider(), { 'if-none-match': '*' });
    expect(created.status).toBe(201);
    expect(created.etag).toBe(`"${created.data.version}"`);
    expect((await send('PUT', path, provider(), { 'if-none-match': '*' })).status).toBe(412);
    const match = { 'if-match': created.etag ?? '' };
    expect((await send('PATCH', path, { timeout_ms: 1 }, match)).status).toBe(200);
    const late = await send('PATCH', path, { timeout_ms: 2 }, match);
    expect([late.status, late.error.message]).toEqual([
      412,
      'The provider "scripted" was changed by admin meanwhile and is now at version 2. Read it again, and repeat your change.',
    ]);
    expect((await send('DELETE', path, undefined, match)).status).toBe(412);
    expect((await send('PUT', '/providers/other', provider(), { 'if-match': '*' })).status).toBe(
      412,
    );
    const invalid = await send('PUT', path, provider(), { 'if-match': 'seven' });
    expect(invalid.error).toMatchObject({ param: 'If-Match' });
    expect(fieldsOf((await send('GET', path)).data.config).timeout_ms).toBe(1);
  });

  test('are locked if the file names them', async () => {
    const path = '/providers/in-file';
    const shown = await send('GET', path);
    expect(shown.data).toMatchObject({
      owner: 'file',
      version: null,
      config: { api_key: '•••0123' },
    });
    for (const [method, body] of [
      ['PUT', provider()],
      ['PATCH', { timeout_ms: 5 }],
      ['DELETE', undefined],
    ] as const) {
      const { status, error } = await send(method, path, body);
      expect(status).toBe(409);
      expect(error.message).toContain(`is set in ${gateway.folder}/tollgate.json`);
    }
    expect((await send('PUT', '/settings/limits.reads_per_minute', { value: 5 })).status).toBe(409);
  });

  test('can be deleted only while nothing uses them', async () => {
    await createBoth();
    const used = await send('DELETE', '/providers/scripted');
    expect([used.status, used.error.message]).toEqual([
      409,
      'The provider "scripted" is used by model "acme/scripted". Change or delete what uses it first.',
    ]);
    expect((await send('DELETE', '/models/acme/scripted')).json).toEqual({ deleted: true });
    expect((await chat()).status).toBe(404);
    expect((await send('DELETE', '/providers/scripted')).json).toEqual({ deleted: true });
    expect((await send('DELETE', '/providers/scripted')).status).toBe(404);
    const { json } = await send('GET', '/providers');
    expect(objectsIn(json.data).map(({ name }) => name)).toEqual(['in-file']);
  });

  test('change settings at once', async () => {
    const path = '/settings/limits.requests_per_minute';
    await createBoth();
    expect((await send('GET', path)).data).toMatchObject({ owner: 'built_in', value: 600 });
    expect((await send('PUT', path, { value: 7 })).status).toBe(201);
    expect((await send('GET', path)).data).toMatchObject({ owner: 'store', value: 7 });
    expect((await chat()).headers.get('x-ratelimit-limit')).toBe('7');
    await send('DELETE', path);
    expect((await chat()).headers.get('x-ratelimit-limit')).toBe('600');
  });

  const invalid: readonly [string, string, object, number, string | null, string][] = [
    ['PUT', '/providers/a', { dialect: 'open' }, 400, 'dialect', 'must be one of "openai"'],
    ['PUT', '/providers/a', { dialect: 'openai' }, 400, 'base_url', 'base_url is required'],
    ['PUT', '/providers/a b', provider(), 400, 'name', 'The name of a provider must be'],
    ['PUT', '/providers/a', { ...provider(), url: 'x' }, 400, 'url', 'url is not a known field'],
    ['PATCH', '/providers/a', {}, 404, null, 'There is no provider "a".'],
    ['PUT', '/models/acme', model(), 400, 'name', 'The ID of a model must have the form'],
    ['PUT', '/models/acme/a', { ...model(), id: 'acme/b' }, 400, 'id', 'id must be "acme/a"'],
    ['PUT', '/models/acme/a', { ...model(), name: 5 }, 400, 'name', 'name must be a string'],
    [
      'PUT',
      '/models/acme/a',
      model(),
      400,
      'endpoints[0].provider',
      'names "scripted", which is not',
    ],
    [
      'PUT',
      '/models/acme/a',
      { ...model(), endpoints: [{ provider: 'in-file', model: 'a' }] },
      400,
      'endpoints[0].pricing',
      'endpoints[0].pricing needs prompt and completion',
    ],
    [
      'PUT',
      '/settings/limits.requests',
      { value: 5 },
      404,
      null,
      'There is no setting "limits.requests"',
    ],
    ['PUT', '/settings/cache.mode', { value: 'on' }, 400, 'value', 'value must be one of "off"'],
    ['PUT', '/settings/cache.mode', {}, 400, 'value', 'value is required'],
    [
      'PUT',
      '/settings/server.public_url',
      { value: 'http://a/b' },
      400,
      'value',
      'value must have no path',
    ],
    [
      'PUT',
      '/settings/tools.web_search',
      { value: { engine: 'brave' } },
      400,
      'value.api_key',
      'value.api_key is required for brave',
    ],
    ['DELETE', '/models/acme/a', {}, 404, null, 'There is no model "acme/a".'],
    ['DELETE', '/settings/cache.mode', {}, 409, null, "is built in and can't be deleted"],
  ];

  test.each(invalid)(
    '%s %s with %j is rejected with %i',
    async (method, path, body, status, param, message) => {
      const before = await gateway.store.configObjects.read();
      const answer = await send(method, path, method === 'DELETE' ? undefined : body);
      expect([answer.status, answer.error.param]).toEqual([status, param]);
      expect(answer.error.message).toContain(message);
      expect(await gateway.store.configObjects.read()).toEqual(before);
    },
  );

  test('are recorded in the audit log in the same transaction', async () => {
    await createBoth();
    await send('PATCH', '/providers/scripted', { timeout_ms: 5000 });
    const rows = await gateway.store.database.read
      .selectFrom('audit_log')
      .selectAll()
      .where('origin', '=', 'http')
      .orderBy('id')
      .execute();
    expect(rows.map(({ action, target, actor }) => [action, target, actor])).toEqual([
      ['provider.create', 'scripted', 'admin'],
      ['model.create', 'acme/scripted', 'admin'],
      ['provider.update', 'scripted', 'admin'],
    ]);
    expect(rows[2]?.address).toBe('127.0.0.1');
    expect(rows[2]?.request_id).toMatch(/^[0-9a-f-]{36}$/);
    const { timeout_ms, ...before } = JSON.parse(rows[2]?.state_after ?? '');
    expect([timeout_ms, before]).toEqual([5000, JSON.parse(rows[2]?.state_before ?? '')]);
    expect(JSON.stringify(rows)).not.toContain(secret);
  });
});
