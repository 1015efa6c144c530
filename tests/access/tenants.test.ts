import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Method } from '../../src/http/routes.ts';
import { ManagementServer } from '../support/management-server.ts';

let rig: ManagementServer;

beforeAll(async () => {
  rig = await ManagementServer.start();
  await rig.addTenant('acme');
});
afterAll(() => rig.stop());

const admin = (method: Method, path: string, body?: unknown) =>
  rig.call(method, `/admin/v1${path}`, { key: rig.adminToken, body });

describe('the tenant API', () => {
  test('creates a tenant with the given or a generated ID', async () => {
    const named = await admin('POST', '/tenants', { id: 'umbrella', name: 'Umbrella' });
    expect(named.status).toBe(201);
    expect(named.data).toEqual({
      id: 'umbrella',
      name: 'Umbrella',
      disabled: false,
      requests_per_minute: null,
      concurrent_requests: null,
      plan: null,
      created_at: '2026-11-15T12:00:00.000Z',
      updated_at: '2026-11-15T12:00:00.000Z',
      credits: { total: 0, held: 0, available: 0, leased: 0 },
      current_period: {
        start_date: '2026-11-01T00:00:00.000Z',
        requests: 0,
        failed_requests: 0,
        total_spend: 0,
        written_off: 0,
      },
    });
    const generated = await admin('POST', '/tenants', { name: 'Nameless' });
    expect(generated.data.id).toMatch(/^ten_[0-9a-z]{16}$/);
    expect((await admin('GET', `/tenants/${String(generated.data.id)}`)).data).toEqual(
      generated.data,
    );
    const { list } = await admin('GET', '/tenants');
    expect(list).toContainEqual(named.data);
    expect(list).toContainEqual(generated.data);
  });

  test('returns 409 for an ID that is in use', async () => {
    const { status, data } = await admin('POST', '/tenants', { id: 'acme', name: 'Again' });
    expect(status).toBe(409);
    expect(data.param).toBe('id');
    expect((await admin('GET', '/tenants/acme')).data.name).toBe('acme');
  });

  test('rejects unknown fields', async () => {
    for (const [method, path] of [
      ['POST', '/tenants'],
      ['PATCH', '/tenants/acme'],
    ] as const) {
      const { status, data } = await admin(method, path, { name: 'Acme', credits: 5 });
      expect([status, data.param]).toEqual([400, 'credits']);
    }
  });

  test('changes only the fields in a PATCH', async () => {
    await admin('POST', '/tenants', { id: 'changing', name: 'Before' });
    rig.time += 1000;
    const body = { name: 'After', requests_per_minute: 30, concurrent_requests: 4 };
    const changed = await admin('PATCH', '/tenants/changing', body);
    expect(changed.data).toMatchObject({ ...body, updated_at: new Date(rig.time).toISOString() });
    const reset = await admin('PATCH', '/tenants/changing', { requests_per_minute: null });
    expect(reset.data).toMatchObject({ ...body, requests_per_minute: null });
    expect((await admin('PATCH', '/tenants/changing', {})).data).toEqual(reset.data);
    const least = { requests_per_minute: 1, concurrent_requests: 1 };
    expect((await admin('PATCH', '/tenants/changing', least)).data).toMatchObject(least);
  });

  test('rejects the keys of a disabled tenant until it is enabled', async () => {
    const { manager, app } = await rig.addTenant('paused');
    const statuses = async () => {
      rig.noticeChanges();
      const calls = [manager, app].map((key) => rig.call('GET', '/v1/key', { key }));
      return (await Promise.all(calls)).map(({ status }) => status);
    };
    expect(await statuses()).toEqual([200, 200]);
    await admin('PATCH', '/tenants/paused', { disabled: true });
    expect(await statuses()).toEqual([401, 401]);
    const withNull = await admin('PATCH', '/tenants/paused', { disabled: null });
    expect([withNull.status, withNull.data.param]).toEqual([400, 'disabled']);
    expect(await statuses()).toEqual([401, 401]);
    await admin('PATCH', '/tenants/paused', { disabled: false });
    expect(await statuses()).toEqual([200, 200]);
  });

  test('returns 404 for a nonexistent tenant on every route', async () => {
    for (const id of ['nobody', '%00', "'%20OR%20'1'='1", 'UPPER']) {
      const calls = [
        admin('GET', `/tenants/${id}`),
        admin('PATCH', `/tenants/${id}`, { name: 'x' }),
        admin('PATCH', `/tenants/${id}`, {}),
        admin('POST', `/tenants/${id}/credits`, { amount: 1 }),
        admin('GET', `/tenants/${id}/credits`),
        admin('POST', `/tenants/${id}/keys`, { name: 'x' }),
        admin('GET', `/tenants/${id}/keys`),
        admin('GET', `/tenants/${id}/keys/key_0123456789abcdef`),
      ];
      for (const { status } of await Promise.all(calls)) expect(status).toBe(404);
    }
  });

  test.each([
    ['id', { id: 'Upper', name: 'a' }],
    ['name', { name: ' ' }],
    ['id', { id: '-a', name: 'a' }],
    ['id', { id: 'a'.repeat(64), name: 'a' }],
    ['id', { id: "a'; DROP TABLE tenants;--", name: 'a' }],
    ['name', {}],
    ['name', { name: '' }],
    ['name', { name: 'two\nlines' }],
    ['name', { name: 'red \u001b[31m' }],
    ['name', { name: 'turned \u202e round' }],
    ['name', { name: 'half \ud800' }],
    ['name', { name: 'a'.repeat(201) }],
    ['requests_per_minute', { name: 'a', requests_per_minute: 0 }],
    ['concurrent_requests', { name: 'a', concurrent_requests: 0 }],
    ['concurrent_requests', { name: 'a', concurrent_requests: '5' }],
    ['balance', { name: 'a', balance: 5 }],
  ])('rejects a tenant with an invalid %s: %j', async (param, body) => {
    const { status, data } = await admin('POST', '/tenants', body);
    expect(status).toBe(400);
    const name = 'invalid_request_error';
    expect(data).toMatchObject({ type: name, code: name, param });
  });

  test("creates a tenant's first key", async () => {
    const body = { name: 'first', management: true };
    const { status, key, data } = await admin('POST', '/tenants/acme/keys', body);
    expect(status).toBe(201);
    const list = await rig.call('GET', '/api/v1/keys', { key });
    expect(list.list.map(({ id }) => id)).toContain(data.id);
  });
});

describe("a tenant's keys, managed by the operator", () => {
  const keys = '/tenants/globex/keys';
  let app: string;
  let appId: string;

  beforeAll(async () => {
    await rig.addTenant('globex');
    const created = await admin('POST', keys, { name: 'the app' });
    app = created.key;
    appId = String(created.data.id);
  });

  const statusOf = async () => (await rig.call('GET', '/v1/key', { key: app })).status;

  test('are listed and shown like their own tenant sees them', async () => {
    const { list } = await admin('GET', `${keys}?search=the%20app`);
    expect(list).toEqual([(await rig.call('GET', '/v1/key', { key: app })).data]);
    expect((await admin('GET', `${keys}/${appId}`)).data).toEqual({ ...list[0] });
    const names = (await admin('GET', keys)).list.map(({ name }) => name);
    expect(names.toSorted()).toEqual(['app', 'manager', 'the app']);
  });

  test('are rejected while disabled and listed only on request', async () => {
    const path = `${keys}/${appId}`;
    expect((await admin('PATCH', path, { disabled: true })).data.disabled).toBe(true);
    expect(await statusOf()).toBe(401);
    expect((await admin('GET', `${keys}?search=the%20app`)).list).toEqual([]);
    const all = await admin('GET', `${keys}?search=the%20app&include_disabled=true`);
    expect(all.list.map(({ id }) => id)).toEqual([appId]);
    expect((await admin('PATCH', path, { disabled: false })).data.disabled).toBe(false);
    expect(await statusOf()).toBe(200);
  });

  test('get a new secret and work until they are deleted', async () => {
    const rotated = await admin('POST', `${keys}/${appId}/rotate`, {});
    expect(await statusOf()).toBe(401);
    app = rotated.key;
    expect(await statusOf()).toBe(200);
    expect((await admin('DELETE', `${keys}/${appId}`)).text).toBe('{"deleted":true}');
    expect(await statusOf()).toBe(401);
    expect((await admin('DELETE', `${keys}/${appId}`)).status).toBe(404);
  });

  test.each([
    ['GET', '', undefined],
    ['PATCH', '', { disabled: true }],
    ['DELETE', '', undefined],
    ['POST', '/rotate', {}],
  ] as const)('are not found below another tenant: %s %s', async (method, suffix, body) => {
    const { data, key } = await admin('POST', keys, { name: 'stays' });
    const { status, data: error } = await admin(
      method,
      `/tenants/acme/keys/${String(data.id)}${suffix}`,
      body,
    );
    expect([status, error.message]).toEqual([404, 'There is no key with this ID.']);
    expect((await rig.call('GET', '/v1/key', { key })).status).toBe(200);
  });

  test.each([
    ['GET', '?offset=-1', undefined, 'offset'],
    ['GET', '?include_disabled=maybe', undefined, 'include_disabled'],
    ['PATCH', '/:id', { disabled: 'yes' }, 'disabled'],
    ['PATCH', '/:id', { tenant_id: 'acme' }, 'tenant_id'],
    ['POST', '/:id/rotate', { overlap_seconds: -1 }, 'overlap_seconds'],
  ] as const)('reject invalid values: %s %s', async (method, suffix, body, param) => {
    const { data } = await admin('POST', keys, { name: 'unchanged' });
    const path = keys + suffix.replace(':id', String(data.id));
    const { status, data: error } = await admin(method, path, body);
    expect([status, error.param]).toEqual([400, param]);
    expect((await admin('GET', `${keys}/${String(data.id)}`)).data).toEqual(data);
  });

  test("can't be managed with a key of a tenant", async () => {
    const { manager, app: routing } = await rig.addTenant('hooli');
    for (const key of [manager, routing]) {
      expect((await rig.call('GET', '/admin/v1/tenants/hooli/keys', { key })).status).toBe(403);
    }
  });
});

describe('the credits API', () => {
  test('grants, corrects, and lists credits, newest first', async () => {
    await rig.addTenant('paying');
    const note = "Invoice '12'; DROP TABLE ledger_entries;--";
    const grant = await admin('POST', '/tenants/paying/credits', { amount: 1000, note });
    expect(grant.status).toBe(201);
    expect(grant.data).toMatchObject({ type: 'grant', amount: 1000, balance: 1000, note });
    const correction = await admin('POST', '/tenants/paying/credits', { amount: -400 });
    expect(correction.status).toBe(201);
    expect(correction.data).toMatchObject({ type: 'correction', amount: -400, balance: 600 });
    const { data } = await admin('GET', '/tenants/paying/credits');
    expect(data).toEqual({
      total: 600,
      held: 0,
      available: 600,
      leased: 0,
      entries: [correction.data, grant.data],
    });
    const { data: tenant } = await admin('GET', '/tenants/paying');
    expect(tenant.credits).toEqual({ total: 600, held: 0, available: 600, leased: 0 });
  });

  test('accepts null for optional fields', async () => {
    await rig.addTenant('silent');
    const body = { amount: 10, note: null, idempotency_key: null };
    const grants = [
      await admin('POST', '/tenants/silent/credits', body),
      await admin('POST', '/tenants/silent/credits', body),
    ];
    expect(grants.map(({ status }) => status)).toEqual([201, 201]);
    expect(grants.map(({ data }) => [data.note, data.balance])).toEqual([
      ['', 10],
      ['', 20],
    ]);
    const named = await admin('POST', '/tenants', { id: null, name: 'Any' });
    expect(named.data.id).toMatch(/^ten_[0-9a-z]{16}$/);
  });

  test('rejects a correction that would make the balance negative, and names the balance', async () => {
    await rig.addTenant('poor');
    await admin('POST', '/tenants/poor/credits', { amount: 50 });
    const { status, data } = await admin('POST', '/tenants/poor/credits', { amount: -51 });
    expect(status).toBe(400);
    expect(data.param).toBe('amount');
    expect(data.message).toContain('50');
    expect((await admin('GET', '/tenants/poor/credits')).data.total).toBe(50);
  });

  test('books an amount once per idempotency key', async () => {
    await rig.addTenant('twice');
    const body = { amount: 70, idempotency_key: "it's one" };
    const first = await admin('POST', '/tenants/twice/credits', body);
    const second = await admin('POST', '/tenants/twice/credits', body);
    expect([first.status, second.status]).toEqual([201, 200]);
    expect(second.data).toEqual(first.data);
    const third = await admin('POST', '/tenants/twice/credits', { ...body, amount: 71 });
    expect(third.status).toBe(409);
    expect(third.data.param).toBe('idempotency_key');
    expect((await admin('GET', '/tenants/twice/credits')).data.total).toBe(70);
  });

  test.each([
    ['amount', {}],
    ['amount', { amount: 0 }],
    ['amount', { amount: 1.5 }],
    ['amount', { amount: '5' }],
    ['amount', { amount: null }],
    ['amount', { amount: 2 ** 53 }],
    ['note', { amount: 1, note: 'a'.repeat(501) }],
    ['note', { amount: 1, note: 'line\r\nbreak' }],
    ['idempotency_key', { amount: 1, idempotency_key: '' }],
    ['idempotency_key', { amount: 1, idempotency_key: 'a'.repeat(201) }],
    ['amonut', { amonut: 1 }],
  ])('rejects an invalid %s: %j', async (param, body) => {
    const { status, data } = await admin('POST', '/tenants/acme/credits', body);
    expect(status).toBe(400);
    expect(data.param).toBe(param);
    expect((await admin('GET', '/tenants/acme/credits')).data.total).toBe(0);
  });
});

test('GET /admin/v1/overview counts tenants, keys, and credits', async () => {
  expect((await admin('GET', '/overview')).data).toEqual({
    tenants: 2,
    keys: 3,
    credits: { total: 700, held: 200, available: 500, leased: 300 },
    version: '1.2.3',
    uptime_seconds: 60,
    database: 'sqlite',
    configuration: { source: 'tollgate.yaml', version: 0, applied_version: 0, problems: [] },
  });
});

test('the requests above cause no internal errors', () => {
  expect(rig.logged.filter((line) => !line.includes('"event":"audit"'))).toEqual([]);
});
