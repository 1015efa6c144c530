import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { createKey } from '../../src/auth/management/keys.ts';
import { scopes } from '../../src/core/caller.ts';
import { ManagementServer } from '../support/management-server.ts';

let rig: ManagementServer;
let acme: { manager: string; app: string };
let other: { manager: string; app: string };

beforeAll(async () => {
  rig = await ManagementServer.start();
  acme = await rig.addTenant('acme');
  other = await rig.addTenant('other', { requests_per_minute: 100 });
});
afterAll(() => rig.stop());

async function newKey(body: object = {}) {
  const answer = await rig.call('POST', '/api/v1/keys', {
    key: acme.manager,
    body: { name: 'a key', ...body },
  });
  expect(answer.status).toBe(201);
  return { ...answer, id: String(answer.data.id) };
}

async function statusOf(key: string): Promise<number> {
  return (await rig.call('GET', '/v1/key', { key })).status;
}

describe('POST /api/v1/keys', () => {
  test('returns every field and a secret that works immediately', async () => {
    const { data, key } = await newKey();
    const [, secret = ''] = /^sk-tg-[0-9a-z]{16}-([0-9a-z]{40})$/.exec(key) ?? [];
    expect(secret).not.toBe('');
    expect(data).toEqual({
      id: `key_${key.slice(6, 22)}`,
      label: `${key.slice(0, 10)}…${key.slice(-2)}`,
      name: 'a key',
      disabled: false,
      limit: null,
      limit_remaining: null,
      limit_reset: null,
      limit_resets_at: null,
      usage: 0,
      usage_daily: 0,
      usage_weekly: 0,
      usage_monthly: 0,
      models: null,
      scopes: null,
      requests_per_minute: null,
      cache: null,
      created_at: '2026-11-15T12:00:00.000Z',
      updated_at: '2026-11-15T12:00:00.000Z',
      expires_at: null,
      last_used_at: null,
    });
    expect((await rig.call('GET', '/v1/key', { key })).data).toEqual(data);
  });

  test('returns the secret only once', async () => {
    const { id, key } = await newKey();
    const secret = key.split('-').at(-1) ?? '';
    const options = { key: acme.manager };
    const answers = [
      await rig.call('GET', `/api/v1/keys/${id}`, options),
      await rig.call('GET', '/api/v1/keys?include_disabled=true', options),
      await rig.call('PATCH', `/api/v1/keys/${id}`, { ...options, body: { name: 'renamed' } }),
      await rig.call('GET', '/v1/key', { key }),
    ];
    for (const { status, text } of answers) {
      expect(status).toBe(200);
      expect(text).not.toContain(secret);
    }
  });

  test('stores every setting unchanged', async () => {
    const settings = {
      limit: 0,
      limit_reset: 'weekly',
      expires_at: '2026-12-01T00:00:00.000Z',
      models: ['demo/*', 'openai/gpt-4o'],
      scopes: [...scopes],
      requests_per_minute: 7,
      cache: 'off',
    };
    const { data, id } = await newKey(settings);
    expect(data).toMatchObject({ ...settings, limit_resets_at: '2026-11-16T00:00:00.000Z' });
    const options = { key: acme.manager };
    const shown = await rig.call('GET', `/api/v1/keys/${id}`, options);
    expect(shown.data).toMatchObject(settings);
    const body = { cache: null };
    const reset = await rig.call('PATCH', `/api/v1/keys/${id}`, { ...options, body });
    expect(reset.data).toMatchObject({ ...settings, cache: null });
  });

  test('creates a management key for the same tenant', async () => {
    const { key } = await newKey({ management: true });
    expect(key).toStartWith('sk-mgmt-');
    const { list } = await rig.call('GET', '/api/v1/keys', { key });
    expect(list.map(({ label }) => label)).toContain(
      `${acme.manager.slice(0, 12)}…${acme.manager.slice(-2)}`,
    );
    expect((await rig.call('GET', '/admin/v1/tenants', { key })).status).toBe(403);
  });

  test("rejects a rate limit above the tenant's", async () => {
    const body = { name: 'fast', requests_per_minute: 101 };
    const { status, data } = await rig.call('POST', '/api/v1/keys', { key: other.manager, body });
    expect(status).toBe(400);
    expect(data).toMatchObject({ param: 'requests_per_minute' });
    expect(data.message).toContain('100');
  });

  test('creates a key that is rejected if its last character is changed', async () => {
    const { id, key } = await newKey();
    const twin = key.slice(0, -1) + (key.endsWith('a') ? 'b' : 'a');
    expect(await statusOf(twin)).toBe(401);
    expect((await rig.call('GET', '/v1/key', { key })).data.id).toBe(id);
    expect(await statusOf(twin)).toBe(401);
  });
});

describe('the key object', () => {
  test('shows the spend in the current period of its limit', async () => {
    const { id } = await newKey({ limit: 100, limit_reset: 'daily' });
    rig.spent.set(id, { total: 500, daily: 30, weekly: 70, monthly: 400 });
    const show = async () =>
      (await rig.call('GET', `/api/v1/keys/${id}`, { key: acme.manager })).data;
    expect(await show()).toMatchObject({
      usage: 500,
      usage_daily: 30,
      usage_weekly: 70,
      usage_monthly: 400,
      limit_remaining: 70,
      limit_resets_at: '2026-11-16T00:00:00.000Z',
    });
    const body = { limit_reset: null };
    const changed = await rig.call('PATCH', `/api/v1/keys/${id}`, { key: acme.manager, body });
    expect(changed.data).toMatchObject({ limit_remaining: 0, limit_resets_at: null });
  });

  test('resets the period when the limit is removed', async () => {
    const { id } = await newKey({ limit: 100, limit_reset: 'daily' });
    const path = `/api/v1/keys/${id}`;
    const { data } = await rig.call('PATCH', path, { key: acme.manager, body: { limit: null } });
    expect(data).toMatchObject({ limit: null, limit_reset: null, limit_remaining: null });
  });

  test('is unchanged by an empty PATCH', async () => {
    const { id, data } = await newKey();
    const path = `/api/v1/keys/${id}`;
    expect((await rig.call('PATCH', path, { key: acme.manager, body: {} })).data).toEqual(data);
  });
});

describe('GET /api/v1/keys', () => {
  test('returns pages of 100 keys of the tenant, without disabled ones by default', async () => {
    const { manager } = await rig.addTenant('many');
    for (let i = 0; i < 99; i++) await createKey(rig.service, 'many', { name: `number ${i}` });
    const list = async (query: string) =>
      (await rig.call('GET', `/api/v1/keys${query}`, { key: manager })).list;
    const first = await list('');
    const second = await list('?offset=100');
    expect(first).toHaveLength(100);
    expect(second).toHaveLength(1);
    expect(new Set([...first, ...second].map(({ id }) => id)).size).toBe(101);
    // Keys created in the same millisecond are in no particular order, so find this one by name.
    const app = first.concat(second).find(({ name }) => name === 'app');
    const path = `/api/v1/keys/${String(app?.id)}`;
    await rig.call('PATCH', path, { key: manager, body: { disabled: true } });
    expect(await list('?offset=100')).toEqual([]);
    expect(await list('?offset=100&include_disabled=true')).toHaveLength(1);
    expect(await list('?tenant_id=acme&a[__proto__][x]=1')).toHaveLength(100);
  });

  test('searches all pages by name', async () => {
    const { manager } = await rig.addTenant('searched');
    for (let i = 0; i < 120; i++)
      await createKey(rig.service, 'searched', { name: `customer @${i}` });
    // No label contains an @, but one may contain 119.
    const names = async (query: string) => {
      const { list } = await rig.call('GET', `/api/v1/keys?${query}`, { key: manager });
      return list.map(({ name }) => name);
    };
    expect(await names('search=%20@119%20CUSTOMER')).toEqual(['customer @119']);
    expect(await names('search=customer&offset=118')).toHaveLength(2);
    expect(await names('search=nobody')).toEqual([]);
    expect(await names('search=')).toHaveLength(100);
  });

  test.each([
    'offset=-1',
    'offset=1.5',
    'offset=x',
    'offset=1e3',
    'include_disabled=maybe',
    'search=a%00b',
  ])('rejects ?%s and names the parameter', async (query) => {
    const { status, data } = await rig.call('GET', `/api/v1/keys?${query}`, { key: acme.manager });
    expect(status).toBe(400);
    expect(data.param).toBe(query.split('=')[0]);
  });
});

describe('POST /api/v1/keys/{id}/rotate', () => {
  test('keeps the ID and accepts the old secret until the overlap ends', async () => {
    const { id, key: old } = await newKey();
    expect(await statusOf(old)).toBe(200);
    const path = `/api/v1/keys/${id}/rotate`;
    const body = { overlap_seconds: 3600 };
    const rotated = await rig.call('POST', path, { key: acme.manager, body });
    expect(rotated.status).toBe(200);
    expect(rotated.data.id).toBe(id);
    expect(rotated.key).not.toBe(old);
    rig.noticeChanges();
    expect(await statusOf(old)).toBe(200);
    expect(await statusOf(rotated.key)).toBe(200);
    rig.time += 3_599_999;
    expect(await statusOf(old)).toBe(200);
    rig.time += 1;
    expect(await statusOf(old)).toBe(401);
    expect(await statusOf(rotated.key)).toBe(200);
  });

  test('invalidates the old secret immediately if there is no overlap', async () => {
    const { id, key: old } = await newKey();
    const { key } = await rig.call('POST', `/api/v1/keys/${id}/rotate`, { key: acme.manager });
    rig.noticeChanges();
    expect(await statusOf(old)).toBe(401);
    expect(await statusOf(key)).toBe(200);
  });

  test.each([-1, 604_801, 1.5, '60'])('rejects an overlap of %p', async (overlap_seconds) => {
    const { id } = await newKey();
    const { status, data } = await rig.call('POST', `/api/v1/keys/${id}/rotate`, {
      key: acme.manager,
      body: { overlap_seconds },
    });
    expect(status).toBe(400);
    expect(data.param).toBe('overlap_seconds');
  });
});

describe('a key', () => {
  test('is rejected while it is disabled', async () => {
    const { id, key } = await newKey();
    expect(await statusOf(key)).toBe(200);
    const path = `/api/v1/keys/${id}`;
    await rig.call('PATCH', path, { key: acme.manager, body: { disabled: true } });
    rig.noticeChanges();
    expect(await statusOf(key)).toBe(401);
    await rig.call('PATCH', path, { key: acme.manager, body: { disabled: false } });
    rig.noticeChanges();
    expect(await statusOf(key)).toBe(200);
  });

  test('is rejected after it was deleted', async () => {
    const { id, key } = await newKey();
    expect(await statusOf(key)).toBe(200);
    const path = `/api/v1/keys/${id}`;
    const deleted = await rig.call('DELETE', path, { key: acme.manager });
    expect(deleted.text).toBe('{"deleted":true}');
    rig.noticeChanges();
    expect(await statusOf(key)).toBe(401);
    expect((await rig.call('GET', path, { key: acme.manager })).status).toBe(404);
    expect((await rig.call('DELETE', path, { key: acme.manager })).status).toBe(404);
  });

  test('is rejected from the millisecond in which it expires', async () => {
    const expires_at = new Date(rig.time + 1000).toISOString();
    const { key } = await newKey({ expires_at });
    rig.time += 999;
    expect(await statusOf(key)).toBe(200);
    rig.time += 1;
    const { status, data } = await rig.call('GET', '/v1/key', { key });
    expect(status).toBe(401);
    expect(data.message).toContain(expires_at);
  });
});

describe('key authentication', () => {
  const cases: [string, (key: string) => Record<string, string>][] = [
    ['without a key', () => ({})],
    ['with an empty bearer token', () => ({ authorization: 'Bearer ' })],
    ['with another scheme', (key) => ({ authorization: `Basic ${key}` })],
    [
      'with two different keys',
      (key) => ({ authorization: `Bearer ${key}`, 'x-api-key': other.app }),
    ],
    ['with two bearer tokens', (key) => ({ authorization: `Bearer ${key}, Bearer ${other.app}` })],
    ['with a key in uppercase', (key) => ({ authorization: `Bearer ${key.toUpperCase()}` })],
    ['with text after the key', (key) => ({ 'x-api-key': `${key} x` })],
    ['with SQL in place of a key', () => ({ authorization: "Bearer 'OR'1'='1" })],
  ];
  test.each(cases)('returns 401 for a request %s', async (_, headersOf) => {
    const { status, data } = await rig.call('GET', '/v1/key', { headers: headersOf(acme.app) });
    expect(status).toBe(401);
    expect(data).toMatchObject({ type: 'invalid_api_key', code: 'invalid_api_key', param: null });
  });

  test('returns 401 for a key in the query string', async () => {
    expect((await rig.call('GET', `/v1/key?key=${acme.app}`)).status).toBe(401);
  });

  test('accepts the same key in 2 headers', async () => {
    const headers = { authorization: `Bearer ${acme.app}`, 'x-api-key': acme.app };
    expect((await rig.call('GET', '/v1/key', { headers })).status).toBe(200);
  });
});

describe("another tenant's key", () => {
  test.each([
    ['GET', '', undefined],
    ['PATCH', '', { name: 'mine now' }],
    ['DELETE', '', undefined],
    ['POST', '/rotate', {}],
  ] as const)('returns the same 404 as a nonexistent key: %s %s', async (method, suffix, body) => {
    const { id, key } = await newKey();
    const options = { key: other.manager, ...(body ? { body } : {}) };
    const otherReply = await rig.call(method, `/api/v1/keys/${id}${suffix}`, options);
    const random = await rig.call(method, `/api/v1/keys/key_0123456789abcdef${suffix}`, options);
    expect(otherReply.status).toBe(404);
    expect(otherReply.text).toBe(random.text);
    rig.noticeChanges();
    expect((await rig.call('GET', '/v1/key', { key })).data.name).toBe('a key');
  });

  test.each([
    '%00',
    "'%20OR%20'1'='1",
    '%22;DROP%20TABLE%20api_keys;--',
    '%5C',
    'key_%F0%9F%92%A9',
  ])('is not found by the ID %s', async (id) => {
    const { status } = await rig.call('GET', `/api/v1/keys/${id}`, { key: acme.manager });
    expect(status).toBe(404);
  });
});

describe('malicious input to the key API', () => {
  const injections = [
    "' OR '1'='1",
    '"; DROP TABLE api_keys;--',
    '\\',
    '%00',
    '<script>x</script>',
  ];

  test.each(injections)('is stored unchanged as a name: %s', async (name) => {
    const { id, data } = await newKey({ name });
    expect(data.name).toBe(name);
    const path = `/api/v1/keys/${id}`;
    const changed = await rig.call('PATCH', path, {
      key: acme.manager,
      body: { name: name + name },
    });
    expect(changed.data.name).toBe(name + name);
    expect((await rig.call('GET', path, { key: acme.manager })).data.name).toBe(name + name);
  });

  test.each([
    ['{"name":"a","__proto__":{"management":true}}', '__proto__'],
    ['{"name":"a","constructor":{"prototype":{"polluted":1}}}', 'constructor'],
    ['{"__proto__":{"name":"a"}}', '__proto__'],
  ])('does not pollute a prototype: %s', async (body, param) => {
    const { status, data } = await rig.call('POST', '/api/v1/keys', { key: acme.manager, body });
    expect(status).toBe(400);
    expect(data.param).toBe(param);
    expect(Reflect.get({}, 'polluted')).toBeUndefined();
    expect(Reflect.get({}, 'management')).toBeUndefined();
  });

  test('is rejected if it is not a JSON object', async () => {
    for (const body of ['[]', '"text"', 'null', '{', '12']) {
      const { status } = await rig.call('POST', '/api/v1/keys', { key: acme.manager, body });
      expect(status).toBe(400);
    }
  });

  test('is rejected above 256 KiB', async () => {
    const body = { name: 'a'.repeat(256 * 1024) };
    const { status } = await rig.call('POST', '/api/v1/keys', { key: acme.manager, body });
    expect(status).toBe(413);
  });

  test('causes no internal errors', () => {
    expect(rig.logged.filter((line) => !line.includes('"event":"audit"'))).toEqual([]);
  });
});
