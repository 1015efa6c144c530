import { afterAll, beforeAll, describe, expect, spyOn, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { SqlLogReads } from '../../src/store/reports/logs.ts';
import { avoidMidnight } from '../support/clock-boundaries.ts';
import { chatAnswer, startFakeUpstream, status500 } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway, type Reply } from '../support/in-process.ts';

// Endpoints that customers use to read their requests and credits.

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
let otherTenant: string;

beforeAll(async () => {
  await avoidMidnight();
  const vendor = { dialect: 'openai', base_url: `${upstream.url}/v1` };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 10_000, concurrent_requests: 64 },
    providers: { vendor },
    models: [
      chatModel('acme/chat', [{ provider: 'vendor', model: 'up-1' }]),
      chatModel('acme/broken', [{ provider: 'vendor', model: 'up-broken' }]),
    ],
  });
  upstream.script('*', chatAnswer('one two three'));
  upstream.script('up-broken', status500());
  otherTenant = await gateway.makeTenant({ name: 'Other' });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

const today = new Date().toISOString().slice(0, 10);

function chat(model = 'acme/chat', key?: string): Promise<Reply> {
  const messages = [{ role: 'user', content: 'Hello!' }];
  return gateway.post({ model, messages }, key === undefined ? {} : { key });
}

function listed(reply: Reply, name: string): Record<string, unknown>[] {
  const list = reply.json[name];
  return Array.isArray(list) ? list.filter(isObject) : [];
}

function part(value: unknown, name: string): Record<string, unknown> {
  const inner = isObject(value) ? value[name] : undefined;
  return isObject(inner) ? inner : {};
}

async function logs(query = '', key?: string): Promise<Reply> {
  return gateway.get(`/v1/customer/logs?${query}`, key === undefined ? {} : { key });
}

async function costOf(reply: Reply): Promise<number> {
  return Number(part(reply.json, 'usage').cost);
}

describe('a request that has just ended', () => {
  test('appears immediately in logs, analytics, credits, generation, and its key', async () => {
    const key = await gateway.makeKey({ name: 'fresh', limit: 1_000_000, limit_reset: 'daily' });
    const before = await gateway.get('/v1/customer/credits', { key });
    const reply = await chat('acme/chat', key);
    const cost = await costOf(reply);
    expect(cost).toBeGreaterThan(0);
    const [row] = listed(await logs('limit=1', key), 'logs');
    expect(row).toEqual({
      id: `log_${reply.requestId.replaceAll('-', '')}`,
      request_id: reply.requestId,
      model: 'acme/chat',
      provider: 'vendor',
      status: 'success',
      traffic_mode: 'shared',
      tokens: {
        prompt: part(reply.json, 'usage').prompt_tokens,
        completion: part(reply.json, 'usage').completion_tokens,
        total: part(reply.json, 'usage').total_tokens,
      },
      cost,
      cost_breakdown: {
        model_charge: cost,
        byok_platform_fee: 0,
        managed_tool_fee: 0,
        agent_runtime_fee: 0,
        total_charge: cost,
      },
      skills_used: [],
      billing_note: null,
      latency_ms: expect.any(Number),
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      api_key_id: expect.stringMatching(/^key_[0-9a-z]{16}$/),
      error: null,
      job_id: null,
      user: null,
    });
    const generation = await gateway.get(`/v1/generation?id=${reply.requestId}`, { key });
    expect(part(generation.json, 'data').total_cost).toBe(cost);
    const after = await gateway.get('/v1/customer/credits', { key });
    const spent = (credits: Reply) => Number(part(credits.json, 'lifetime').spent);
    expect(spent(after) - spent(before)).toBe(cost);
    expect(part(after.json.quotas, 'key')).toMatchObject({
      limit: 1_000_000,
      used: cost,
      remaining: 1_000_000 - cost,
      resets_at: expect.stringMatching(/T00:00:00\.000Z$/),
    });
    const keyReply = await gateway.get('/v1/key', { key });
    expect(part(keyReply.json, 'data')).toMatchObject({ usage: cost, usage_daily: cost });
    const id = String(part(keyReply.json, 'data').id);
    const analytics = await gateway.get(`/v1/customer/analytics?api_key_id=${id}`, { key });
    expect(analytics.json.summary).toMatchObject({ total_requests: 1, total_spend: cost });
  });

  test('appears in the logs without a cost if it failed', async () => {
    const reply = await chat('acme/broken');
    expect(reply.status).toBe(502);
    const [row] = listed(await logs('status=error&model=acme/broken&limit=1'), 'logs');
    expect(row).toMatchObject({
      request_id: reply.requestId,
      status: 'error',
      error: 'upstream_error',
      provider: '',
      cost: 0,
    });
  });
});

describe('GET /v1/customer/logs', () => {
  test('returns each row once across pages, newest first', async () => {
    const key = await gateway.makeTenant({ name: 'Paging' });
    const sent: string[] = [];
    for (let n = 0; n < 7; n += 1) sent.push((await chat('acme/chat', key)).requestId);
    const received: unknown[] = [];
    for (const offset of [0, 3, 6, 9]) {
      const page = await logs(`limit=3&offset=${offset}`, key);
      expect(page.json.pagination).toEqual({ total: 7, limit: 3, offset, has_more: offset < 4 });
      received.push(...listed(page, 'logs').map((row) => row.request_id));
    }
    expect(received).toEqual(sent.toReversed());
    for (const offset of [0, 5, 6]) {
      const page = await logs(`limit=1&offset=${offset}`, key);
      expect(page.json.pagination).toEqual({ total: 7, limit: 1, offset, has_more: offset < 6 });
    }
  });

  test('returns 50 rows by default and 100 at most', async () => {
    const limitOf = async (query: string) => part((await logs(query)).json, 'pagination').limit;
    expect(await limitOf('')).toBe(50);
    expect(await limitOf('limit=7')).toBe(7);
    expect(await limitOf('limit=1000000000')).toBe(100);
    expect(await limitOf('limit=99999999999999999999')).toBe(100);
  });

  test("returns no rows of other tenants and 404 for another tenant's key", async () => {
    await chat('acme/chat', otherTenant);
    const own = listed(await logs('', otherTenant), 'logs');
    expect(own.length).toBe(1);
    const ours = listed(await logs('limit=100'), 'logs').map((row) => row.request_id);
    expect(ours).not.toContain(own[0]?.request_id);
    const keyReply = await gateway.get('/v1/key', { key: otherTenant });
    const otherTenantKeyId = String(part(keyReply.json, 'data').id);
    for (const path of ['logs', 'logs/export.csv', 'analytics', 'analytics/export.csv']) {
      const reply = await gateway.get(`/v1/customer/${path}?api_key_id=${otherTenantKeyId}`);
      expect([path, reply.status, reply.error.param]).toEqual([path, 404, 'api_key_id']);
    }
  });

  test('includes the full last day and excludes other days', async () => {
    const { total } = part((await logs('')).json, 'pagination');
    const count = async (query: string) => part((await logs(query)).json, 'pagination').total;
    const day = (offset: number) =>
      new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);
    // The test may run past midnight.
    expect(await count(`start_date=${day(-1)}&end_date=${day(0)}`)).toBe(total);
    expect(await count(`start_date=${today}`)).toBe(total);
    expect(await count('start_date=0001-01-01&end_date=9999-12-31')).toBe(total);
    expect(await count(`end_date=${day(-2)}`)).toBe(0);
    expect(await count('end_date=0001-01-01')).toBe(0);
    expect(await count(`start_date=${day(1)}T00:00:00Z`)).toBe(0);
  });
});

describe('invalid parameters', () => {
  test.each([
    ['logs?limit=-1', 400, 'limit'],
    ['logs?limit=0', 400, 'limit'],
    ['logs?limit=1e9', 400, 'limit'],
    ['logs?limit=ten', 400, 'limit'],
    ['logs?limit=', 400, 'limit'],
    ['logs?limit=2.5', 400, 'limit'],
    ['logs?offset=-1', 400, 'offset'],
    ['logs?offset=99999999999999999999', 400, 'offset'],
    ['logs?status=failed', 400, 'status'],
    ['logs?model=a%00b', 400, 'model'],
    ['logs?end_date=12026-12-31', 400, 'end_date'],
    ['logs?start_date=2026-02-30', 400, 'start_date'],
    ['logs?start_date=2026-03-02&end_date=2026-03-01', 400, 'start_date'],
    ['logs?api_key_id=key_nothing', 404, 'api_key_id'],
    ['logs?api_key_id=%00', 404, 'api_key_id'],
    ["logs?api_key_id='%20or%201=1--", 404, 'api_key_id'],
    ['logs/export.csv?start_date=soon', 400, 'start_date'],
    ['analytics?start_date=1970-01-01', 400, 'start_date'],
    ['analytics?end_date=tomorrow', 400, 'end_date'],
    ['analytics?api_key_id=x', 404, 'api_key_id'],
    ['billing/usage-statement.csv?month=2026-13', 400, 'month'],
    ['billing/usage-statement.csv?month=2999-01', 400, 'month'],
  ])('GET /v1/customer/%s returns %i', async (path, status, param) => {
    const reply = await gateway.get(`/v1/customer/${path}`);
    expect(reply.status).toBe(status);
    const type = 'invalid_request_error';
    expect(reply.error).toMatchObject({ type, code: type, param });
  });

  test('that look like SQL match nothing', async () => {
    const query = new URLSearchParams({ model: "x' or '1'='1" });
    expect(part((await logs(String(query))).json, 'pagination').total).toBe(0);
  });
});

test('GET /api/v1/credits returns the lifetime totals of the account', async () => {
  const { management } = gateway.keys;
  const reply = await gateway.get('/api/v1/credits', { key: management });
  const { lifetime } = (await gateway.get('/v1/customer/credits')).json;
  expect(reply.json).toEqual({
    data: {
      total_credits: part({ lifetime }, 'lifetime').granted,
      total_usage: part({ lifetime }, 'lifetime').spent,
    },
  });
});

test.each([
  ['Connection terminated unexpectedly', 503, 'service_unavailable', '2'],
  ['A row is corrupt', 500, 'internal_error', null],
])('GET /v1/customer/logs hides the cause of a store failure: %s', async (...row) => {
  const [reason, status, type, retryAfter] = row;
  using _ = spyOn(SqlLogReads.prototype, 'page').mockRejectedValueOnce(new Error(reason));
  const reply = await logs();
  expect([reply.status, reply.headers.get('retry-after')]).toEqual([status, retryAfter]);
  expect(reply.error).toMatchObject({ type, code: type });
  expect(reply.text).not.toContain(reason);
});
