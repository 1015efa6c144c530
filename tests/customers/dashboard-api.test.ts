import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { avoidMidnight } from '../support/clock-boundaries.ts';
import {
  chatAnswer,
  cutMidStream,
  startFakeUpstream,
  status500,
} from '../support/fake-upstream.ts';
import { startGateway } from '../support/gateway.ts';
import { chatModel, InProcessGateway, type Reply } from '../support/in-process.ts';
import { waitUntil } from '../support/wait-until.ts';

// Endpoints that the dashboard reads: receipts, analytics, statements, health, and tenants.

const upstream = startFakeUpstream();
const hello = chatAnswer('Hello', { usage: { prompt: 150, completion: 7 }, cachedTokens: 100 });
let gateway: InProcessGateway;

beforeAll(async () => {
  await avoidMidnight();
  const vendor = { dialect: 'openai', base_url: `${upstream.url}/v1` };
  const pricing = { prompt: '3', completion: '15', cache_read: '0.30', request: '0.000001' };
  gateway = await InProcessGateway.start({
    providers: { bad: vendor, good: vendor },
    models: [
      chatModel('acme/chat', [
        { provider: 'bad', model: 'up-bad', priority: 0 },
        { provider: 'good', model: 'up-good', priority: 1, pricing },
      ]),
      chatModel('acme/broken', [{ provider: 'bad', model: 'up-bad' }]),
      chatModel('acme/unused', [{ provider: 'good', model: 'up-unused' }]),
    ],
  });
  upstream.script('up-bad', status500());
  upstream.script('up-good', hello);
}, 120_000);
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

const chat = (model: string, key?: string): Promise<Reply> =>
  gateway.post(
    { model, messages: [{ role: 'user', content: 'Hi' }] },
    key === undefined ? {} : { key },
  );

function dataOf({ json }: Reply): Record<string, unknown> {
  return isObject(json.data) ? json.data : {};
}

function rowsOf(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

describe('GET /v1/customer/logs/{id}', () => {
  test('returns every attempt, token class, price, and fee', async () => {
    const { requestId } = await chat('acme/chat');
    const receipt = dataOf(await gateway.get(`/v1/customer/logs/${requestId}`));
    // 50 × 3 + 100 × 0.30 + 7 × 15 dollars per million, and a millionth per request: 286.
    expect(receipt).toMatchObject({
      request_id: requestId,
      operation: 'chat',
      model: 'acme/chat',
      answered_by: { model: 'acme/chat', provider: 'good' },
      status: 'success',
      error: null,
      tokens: {
        input: 50,
        cache_read: 100,
        cache_write: 0,
        prompt: 150,
        completion: 7,
        total: 157,
      },
      lines: [
        { price: 'prompt', quantity: 50, per: 1_000_000, usd: '3', credits: '150' },
        { price: 'cache_read', quantity: 100, per: 1_000_000, usd: '0.30', credits: '30' },
        { price: 'completion', quantity: 7, per: 1_000_000, usd: '15', credits: '105' },
        { price: 'request', quantity: 1, per: 1, usd: '0.000001', credits: '1' },
      ],
      cost: 286,
      cost_breakdown: { model_charge: 286, byok_platform_fee: 0, total_charge: 286 },
      generation_url: `/v1/generation?id=${requestId}`,
    });
    const attempts = rowsOf(receipt.attempts);
    expect(attempts.map(({ provider, outcome, status }) => [provider, outcome, status])).toEqual([
      ['bad', 'server', 500],
      ['good', 'answered', 200],
    ]);
    // The provider's name for the model is not exposed.
    expect(JSON.stringify(receipt)).not.toContain('up-');
  });

  test('returns lines for characters and images', async () => {
    await using demo = await startGateway();
    const key = demo.keys.api;
    const linesOf = async (path: string, body: object) => {
      const { status, headers } = await demo.call('POST', path, { key, body });
      expect(status).toBe(200);
      const id = headers.get('x-request-id') ?? '';
      const { body: answer } = await demo.call('GET', `/v1/customer/logs/${id}`, { key });
      const { lines, cost } = isObject(answer.data) ? answer.data : {};
      return { lines, cost };
    };
    const speech = { model: 'demo/speech', input: 'Hello there', voice: 'alloy' };
    expect(await linesOf('/v1/audio/speech', speech)).toEqual({
      // $1 per million characters is 1 credit per character.
      lines: [{ price: 'characters', quantity: 11, per: 1_000_000, usd: '1.00', credits: '11' }],
      cost: 11,
    });
    const { lines, cost } = await linesOf('/v1/images/generations', {
      model: 'demo/image',
      prompt: 'A gate',
    });
    const image = rowsOf(lines).find(({ price }) => price === 'output_image');
    expect(image).toMatchObject({ quantity: 1, per: 1, usd: '0.002', credits: '2000' });
    expect(Number(cost)).toBeGreaterThanOrEqual(2_000);
  }, 120_000);

  test('returns the error of a failed request without charges', async () => {
    const { requestId, status } = await chat('acme/broken');
    expect(status).toBe(502);
    const receipt = dataOf(await gateway.get(`/v1/customer/logs/${requestId}`));
    expect(receipt).toMatchObject({ status: 'error', error: 'upstream_error', cost: 0, lines: [] });
  });

  test('accepts every ID of a request', async () => {
    const { requestId } = await chat('acme/chat');
    const { json } = await gateway.get('/v1/customer/logs?limit=1');
    const [row] = rowsOf(json.logs);
    expect(row?.request_id).toBe(requestId);
    const body = requestId.replaceAll('-', '');
    for (const id of [row?.id, `chatcmpl-${body}`, `msg_${body}`, `resp_${body}`]) {
      const receipt = dataOf(await gateway.get(`/v1/customer/logs/${id}`));
      expect(receipt.request_id).toBe(requestId);
    }
  });

  test("returns 404 for another tenant's request and unknown IDs", async () => {
    const { requestId } = await chat('acme/chat');
    const otherKey = await gateway.makeTenant({ name: 'Other' });
    const hidden = await gateway.get(`/v1/customer/logs/${requestId}`, { key: otherKey });
    expect([hidden.status, hidden.error.param]).toEqual([404, 'id']);
    for (const id of [crypto.randomUUID(), 'nonsense', '%00', '-']) {
      expect((await gateway.get(`/v1/customer/logs/${id}`)).status).toBe(404);
    }
  });
});

describe('GET /v1/customer/analytics', () => {
  test('groups the sums by model, provider, key, and traffic mode', async () => {
    const key = await gateway.makeTenant({ name: 'Grouped' });
    for (const model of ['acme/chat', 'acme/chat', 'acme/broken']) await chat(model, key);
    const groupedBy = async (name: string) => {
      const { json } = await gateway.get(`/v1/customer/analytics?group_by=${name}`, { key });
      expect(json.group_by).toBe(name);
      return rowsOf(json.groups).map(({ value, summary }) => {
        const { total_requests, failed_requests, total_spend } = isObject(summary) ? summary : {};
        return [value, total_requests, failed_requests, total_spend];
      });
    };
    const [models, providers] = [await groupedBy('model'), await groupedBy('provider')];
    expect(models).toEqual([
      ['acme/chat', 2, 0, 572],
      ['acme/broken', 1, 1, 0],
    ]);
    expect(providers).toEqual([
      ['good', 2, 0, 572],
      ['', 1, 1, 0],
    ]);
    expect(await groupedBy('traffic_mode')).toEqual([['shared', 3, 1, 572]]);
    expect(await groupedBy('api_key_id')).toEqual([[expect.stringMatching(/^key_/), 3, 1, 572]]);
  });

  test('returns failures and average latency per day', async () => {
    const { json } = await gateway.get('/v1/customer/analytics');
    const day = rowsOf(json.timeseries).find(({ failed_requests }) => Number(failed_requests) > 0);
    expect(day?.avg_latency_ms).toEqual(expect.any(Number));
    expect(json.groups).toBeUndefined();
  });

  test('returns 24 hours of one day with granularity=hour', async () => {
    const key = await gateway.makeTenant({ name: 'Hours' });
    for (const model of ['acme/chat', 'acme/broken']) await chat(model, key);
    const now = new Date().toISOString();
    const today = now.slice(0, 10);
    const path = `/v1/customer/analytics?start_date=${today}&end_date=${today}&group_by=model`;
    const { json } = await gateway.get(`${path}&granularity=hour`, { key });
    expect(json.granularity).toBe('hour');
    const hours = rowsOf(json.timeseries);
    expect(hours.map(({ date, hour }) => [date, hour])).toEqual(
      Array.from({ length: 24 }, (_, hour) => [today, hour]),
    );
    expect(hours.reduce((sum, { requests }) => sum + Number(requests), 0)).toBe(2);
    const [largest] = rowsOf(json.groups);
    const used = rowsOf(largest?.timeseries).map(({ date, spend }) => [date, spend]);
    expect(used).toEqual([[today, 286]]);
    const byDay = await gateway.get(`${path}&granularity=day`, { key });
    expect(rowsOf(byDay.json.timeseries)).toEqual([
      expect.objectContaining({ date: today, requests: 2, spend: 286 }),
    ]);
    expect(byDay.json.granularity).toBeUndefined();
  });

  test('counts only the hours that contain its times, as the log does', async () => {
    const key = await gateway.makeTenant({ name: 'Times' });
    await chat('acme/chat', key);
    const now = Date.now();
    const hourOf = (offset: number) =>
      `${new Date(now + offset * 3_600_000).toISOString().slice(0, 13)}:30Z`;
    const requestsIn = async (from: number, to: number) => {
      const dates = `start_date=${hourOf(from)}&end_date=${hourOf(to)}`;
      const { json } = await gateway.get(`/v1/customer/analytics?${dates}&group_by=model`, { key });
      const csv = await gateway.get(`/v1/customer/analytics/export.csv?${dates}`, { key });
      const { total_requests } = isObject(json.summary) ? json.summary : {};
      return [total_requests, rowsOf(json.groups).length, csv.text.trim().split('\r\n').length - 1];
    };
    expect(await requestsIn(-1, 1)).toEqual([1, 1, 1]);
    expect(await requestsIn(-9, -2)).toEqual([0, 0, 0]);
    expect(await requestsIn(2, 9)).toEqual([0, 0, 0]);
    const { json } = await gateway.get(
      `/v1/customer/analytics?start_date=${hourOf(-9)}&end_date=${hourOf(-2)}`,
      { key },
    );
    expect(json.period).toEqual({
      start_date: `${hourOf(-9).slice(0, 13)}:00:00.000Z`,
      end_date: `${hourOf(-2).slice(0, 13)}:59:59.999Z`,
    });
  });

  test('rejects a time that is after its end', async () => {
    const dates = 'start_date=2026-02-28T12:00:00Z&end_date=2026-02-28T11:00:00Z';
    const { status, error } = await gateway.get(`/v1/customer/analytics?${dates}`);
    expect([status, error.param]).toEqual([400, 'start_date']);
  });

  test.each([
    ['granularity=hour', 'granularity=hour covers one day.'],
    ['granularity=minute', 'granularity must be'],
  ])('rejects %s for several days', async (query, sentence) => {
    const { status, error } = await gateway.get(`/v1/customer/analytics?${query}`);
    expect([status, error.param]).toEqual([400, 'granularity']);
    expect(String(error.message)).toStartWith(sentence);
  });

  test('rejects an unknown group_by', async () => {
    const { status, error } = await gateway.get('/v1/customer/analytics?group_by=user');
    expect([status, error.param]).toEqual([400, 'group_by']);
  });
});

describe('GET /v1/customer/billing/statements', () => {
  test('returns monthly totals that include the latest charge', async () => {
    const key = await gateway.makeTenant({ name: 'Months' });
    await chat('acme/chat', key);
    const { json } = await gateway.get('/v1/customer/billing/statements?months=2', { key });
    const [month, before] = rowsOf(json.data);
    expect(month).toEqual({
      month: new Date().toISOString().slice(0, 7),
      opening_balance: 0,
      granted: 1_000_000_000,
      corrected: 0,
      charged: 286,
      closing_balance: 999_999_714,
    });
    expect(before?.closing_balance).toBe(0);
  });

  test.each(['0', '-1', '1.5', 'many', ''])('rejects months=%p', async (months) => {
    const path = `/v1/customer/billing/statements?months=${months}`;
    const { status, error } = await gateway.get(path);
    expect([status, error.param]).toEqual([400, 'months']);
  });
});

describe('provider health', () => {
  /**
   * Repeats a read until a circuit is open. It becomes half-open after a while, and the next
   * failing call opens it again.
   */
  async function withOpenCircuit(read: () => Promise<Reply>): Promise<Reply> {
    return waitUntil(async () => {
      const reply = await read();
      if (reply.text.includes('"circuit":"open"')) return reply;
      await chat('acme/broken');
      return undefined;
    });
  }

  test("is returned with each model's endpoints to keys that may use the model", async () => {
    const { json, text } = await withOpenCircuit(() => gateway.get('/v1/customer/models'));
    const model = rowsOf(json.data).find(({ id }) => id === 'acme/chat');
    expect(model?.endpoints).toMatchObject([
      { provider: 'bad', priority: 0, traffic_mode: 'shared', circuit: 'open' },
      {
        provider: 'good',
        priority: 1,
        circuit: 'closed',
        pricing: { prompt: '3', completion: '15', cache_read: '0.30', request: '0.000001' },
      },
    ]);
    expect(text).not.toContain('up-');
    const unused = rowsOf(json.data).find(({ id }) => id === 'acme/unused');
    const unknown = { circuit: 'closed', first_byte_ms: null, tokens_per_second: null };
    expect(unused?.endpoints).toMatchObject([unknown]);
    const key = await gateway.makeKey({ name: 'narrow', models: ['acme/broken'] });
    const narrow = await gateway.get('/v1/customer/models', { key });
    expect(rowsOf(narrow.json.data).map(({ id }) => id)).toEqual(['acme/broken']);
  });

  test('counts the recent calls of each provider', async () => {
    const recentOf = async (provider: string) => {
      const { json } = await gateway.get('/admin/v1/providers', { key: gateway.keys.admin });
      const { recent } = rowsOf(json.data).find(({ name }) => name === provider) ?? {};
      const { calls = 0, failed_calls = 0, failures } = isObject(recent) ? recent : {};
      const counts = isObject(failures) ? failures : {};
      return { calls, failed_calls, server: 0, interrupted: 0, ...counts };
    };
    const before = { bad: await recentOf('bad'), good: await recentOf('good') };
    upstream.script('up-good', [cutMidStream(2), hello]);
    const body = { model: 'acme/chat', messages: [{ role: 'user', content: 'Hi' }] };
    const only = { provider: { only: ['good'] } };
    expect((await gateway.stream({ ...body, ...only })).doneCount).toBe(0);
    expect((await gateway.post({ ...body, ...only })).status).toBe(200);
    expect((await chat('acme/broken')).status).toBe(502);
    const growth = (a: unknown, b: unknown) => Number(b) - Number(a);
    const [bad, good] = [await recentOf('bad'), await recentOf('good')];
    expect([
      growth(before.bad.calls, bad.calls),
      growth(before.bad.failed_calls, bad.failed_calls),
      growth(before.bad.server, bad.server),
    ]).toEqual([1, 1, 1]);
    expect([
      growth(before.good.calls, good.calls),
      growth(before.good.failed_calls, good.failed_calls),
      growth(before.good.interrupted, good.interrupted),
    ]).toEqual([2, 1, 1]);
  });

  test('is returned to the operator with the state of the accounting', async () => {
    const { admin } = gateway.keys;
    const readProviders = () => gateway.get('/admin/v1/providers', { key: admin });
    const { json } = await withOpenCircuit(readProviders);
    const bad = rowsOf(json.data).find(({ name }) => name === 'bad');
    expect(bad).toMatchObject({ dialect: 'openai', circuit: 'open' });
    const [endpoint] = rowsOf(bad?.endpoints);
    expect(endpoint).toMatchObject({ upstream_model: 'up-bad', circuit: 'open' });
    expect(Number(endpoint?.failures_in_a_row)).toBeGreaterThanOrEqual(5);
    // Reading the log waits until all settlements are booked.
    await gateway.get('/v1/customer/logs');
    const books = dataOf(await gateway.get('/admin/v1/accounting', { key: admin }));
    expect(books).toMatchObject({ running: 0, waiting: 0 });
  });
});

describe('GET /admin/v1/tenants', () => {
  const list = async (query: string) => {
    const reply = await gateway.get(`/admin/v1/tenants?${query}`, { key: gateway.keys.admin });
    return { ...reply, rows: rowsOf(reply.json.data) };
  };

  test('returns the current month of each tenant, sorted by spend', async () => {
    const [small, large] = ['Sorted small', 'Sorted large'];
    const key = await gateway.makeTenant({ name: small });
    await chat('acme/chat', key);
    await chat('acme/broken', key);
    const other = await gateway.makeTenant({ name: large });
    for (let times = 0; times < 2; times++) await chat('acme/chat', other);
    const { rows } = await list('search=sORTED&sort=spend&order=desc');
    const start_date = `${new Date().toISOString().slice(0, 8)}01T00:00:00.000Z`;
    const month = { start_date, written_off: 0 };
    expect(rows.map(({ name, current_period }) => [name, current_period])).toEqual([
      [large, { ...month, requests: 2, failed_requests: 0, total_spend: 572 }],
      [small, { ...month, requests: 2, failed_requests: 1, total_spend: 286 }],
    ]);
    const [, second] = rows;
    expect(second).toMatchObject({ credits: { total: 999_999_714 } });
    const alone = await gateway.get(`/admin/v1/tenants/${second?.id}`, { key: gateway.keys.admin });
    expect(dataOf(alone)).toEqual(second ?? {});
    const paged = await list('search=sorted&sort=spend&order=desc&offset=1');
    expect(paged.rows).toEqual([second ?? {}]);
  });

  test('includes a request that has just ended', async () => {
    const key = await gateway.makeTenant({ name: 'Just now' });
    const [tenant] = (await list('search=just now')).rows;
    const path = `/admin/v1/tenants/${tenant?.id}`;
    const operator = { key: gateway.keys.admin };
    await chat('acme/chat', key);
    expect(dataOf(await gateway.get(path, operator))).toMatchObject({
      credits: { total: 999_999_714 },
      current_period: { requests: 1, total_spend: 286 },
    });
    await chat('acme/chat', key);
    expect(dataOf(await gateway.get(`${path}/credits`, operator))).toMatchObject({
      total: 999_999_428,
    });
  });

  test.each([
    ['sort=secret_hash', 'sort'],
    ['sort=', 'sort'],
    ['order=up', 'order'],
    ['offset=-1', 'offset'],
    ['search=a%00b', 'search'],
    ['search=%0a', 'search'],
    [`search=${'x'.repeat(201)}`, 'search'],
  ])('rejects ?%s', async (query, param) => {
    const { status, error } = await list(query);
    expect([status, error.param]).toEqual([400, param]);
  });
});

test('GET /v1/customer/logs returns the key of each request', async () => {
  const key = await gateway.makeKey({ name: 'logged' });
  const { requestId } = await chat('acme/chat', key);
  const about = dataOf(await gateway.get('/v1/key', { key }));
  const { json } = await gateway.get('/v1/customer/logs?limit=1');
  expect(rowsOf(json.logs)).toMatchObject([{ request_id: requestId, api_key_id: about.id }]);
});

test("GET /api/v1/byok lists the providers that accept tenants' own keys", async () => {
  const { json } = await gateway.get('/api/v1/byok', { key: gateway.keys.management });
  expect(json.data).toEqual([]);
  const names = rowsOf(json.providers).map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(['bad', 'good']));
});
