import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { avoidMidnight } from '../support/clock-boundaries.ts';
import { parseCsv, readTable, removeFormulaGuard } from '../support/csv.ts';
import { chatAnswer, gated, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway, type Reply } from '../support/in-process.ts';

// A tenant's reports as JSON and CSV, compared with the costs in its answers.

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
let key: string;
let costs: number[];

/** Text that a spreadsheet would execute, sent as a model name. */
const hostile = '=cmd|"/c calc"!A1, and\nmore';

beforeAll(async () => {
  await avoidMidnight();
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 10_000, concurrent_requests: 64 },
    providers: { vendor: { dialect: 'openai', base_url: `${upstream.url}/v1` } },
    models: [
      chatModel('acme/chat', [{ provider: 'vendor', model: 'up-1' }]),
      chatModel('acme/large', [
        { provider: 'vendor', model: 'up-2', pricing: { prompt: '900', completion: '900' } },
      ]),
    ],
  });
  upstream.script('*', chatAnswer('one two three'));
  key = await gateway.makeTenant({ name: 'Reports' });
  const first = await chat('acme/chat', hostile);
  const replies = [first, await chat('acme/large'), await chat('acme/large', 'alice')];
  costs = replies.map((reply) => Number(objectIn(reply.json, 'usage').cost));
  expect((await chat(hostile)).status).toBe(404);
}, 120_000);
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

function chat(model: string, user?: string): Promise<Reply> {
  return gateway.post({ model, user, messages: [{ role: 'user', content: 'Hello!' }] }, { key });
}

function objectIn(value: unknown, name: string): Record<string, unknown> {
  const inner = isObject(value) ? value[name] : undefined;
  return isObject(inner) ? inner : {};
}

const read = (path: string) => gateway.get(`/v1/customer/${path}`, { key });
const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0);
const column = (rows: Record<string, string>[], name: string) =>
  rows.map((row) => Number(row[name]));

describe('GET /v1/customer/analytics', () => {
  test('returns the sums of a period and of each day', async () => {
    const { json } = await read('analytics');
    const total = sum(costs);
    expect(json.summary).toMatchObject({
      total_requests: 4,
      successful_requests: 3,
      failed_requests: 1,
      error_rate: 25,
      shared_model_spend: total,
      byok_platform_fees: 0,
      managed_tool_fees: 0,
      agent_runtime_fees: 0,
      search_requests: 0,
      total_spend: total,
    });
    const summary = objectIn(json, 'summary');
    expect(summary.total_tokens).toBe(
      Number(summary.prompt_tokens) + Number(summary.completion_tokens),
    );
    expect(Number(summary.avg_latency_ms)).toBeGreaterThanOrEqual(0);
    const series = Array.isArray(json.timeseries) ? json.timeseries.filter(isObject) : [];
    expect(series).toHaveLength(8);
    const { start_date, end_date } = objectIn(json, 'period');
    expect([start_date, end_date]).toEqual([
      `${series[0]?.date}T00:00:00.000Z`,
      `${series.at(-1)?.date}T23:59:59.999Z`,
    ]);
    expect(series[0]).toEqual({
      date: series[0]?.date,
      requests: 0,
      failed_requests: 0,
      avg_latency_ms: 0,
      prompt_tokens: 0,
      completion_tokens: 0,
      tokens: 0,
      shared_model_spend: 0,
      byok_platform_fees: 0,
      managed_tool_fees: 0,
      agent_runtime_fees: 0,
      search_requests: 0,
      spend: 0,
    });
    expect(sum(series.map((day) => Number(day.requests)))).toBe(4);
    expect(sum(series.map((day) => Number(day.spend)))).toBe(total);
  });

  test('returns zeros for each day without requests', async () => {
    const { json } = await read('analytics?start_date=2024-02-28&end_date=2024-03-01T05:00:00Z');
    const series = Array.isArray(json.timeseries) ? json.timeseries.filter(isObject) : [];
    expect(series.map(({ date }) => date)).toEqual(['2024-02-28', '2024-02-29', '2024-03-01']);
    expect(json.summary).toMatchObject({ total_requests: 0, error_rate: 0, avg_latency_ms: 0 });
  });
});

describe('CSV exports', () => {
  test('are UTF-8 attachments with a file name', async () => {
    const { headers } = await read('logs/export.csv');
    expect(headers.get('content-type')).toBe('text/csv; charset=utf-8');
    expect(headers.get('content-disposition')).toBe('attachment; filename="tollgate-logs.csv"');
    expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
  });

  test('of the log contain its rows with escaped formulas', async () => {
    const { text } = await read('logs/export.csv');
    const rows = readTable(text);
    const { json } = await read('logs');
    const logs = Array.isArray(json.logs) ? json.logs.filter(isObject) : [];
    expect(rows.map(({ request_id }) => request_id)).toEqual(
      logs.map(({ request_id }) => String(request_id)),
    );
    expect(rows[0]?.model).toBe(`'${hostile}`);
    expect(rows.map(({ model = '' }) => removeFormulaGuard(model))).toEqual(
      logs.map((row) => String(row.model)),
    );
    expect(sum(column(rows, 'total_charge'))).toBe(sum(costs));
    expect(Object.keys(rows[0] ?? {})).toEqual([
      'id',
      'request_id',
      'model',
      'provider',
      'status',
      'traffic_mode',
      'tokens_prompt',
      'tokens_completion',
      'tokens_total',
      'cost',
      'model_charge',
      'byok_platform_fee',
      'managed_tool_fee',
      'agent_runtime_fee',
      'total_charge',
      'skills_used',
      'billing_note',
      'latency_ms',
      'created_at',
      'api_key_id',
      'error',
      'job_id',
      'user',
    ]);
    expect(rows.map(({ api_key_id }) => api_key_id)).toEqual(
      logs.map((row) => String(row.api_key_id)),
    );
    expect(rows.map(({ error }) => error)).toEqual(logs.map((row) => String(row.error ?? '')));
    expect(logs.map(({ user }) => user)).toEqual([null, 'alice', null, hostile]);
    expect(rows.map(({ user }) => user)).toEqual(['', 'alice', '', `'${hostile}`]);
  });

  test('of analytics and statements add up to the charges', async () => {
    const groups = readTable((await read('analytics/export.csv')).text);
    expect(sum(column(groups, 'total_spend'))).toBe(sum(costs));
    expect(sum(column(groups, 'requests'))).toBe(4);
    expect(groups.every(({ api_key_id = '' }) => api_key_id.startsWith('key_'))).toBe(true);
    const statement = readTable((await read('billing/usage-statement.csv')).text);
    const charges = statement.filter(({ type }) => type === 'charge');
    expect(sum(column(charges, 'amount'))).toBe(-sum(costs));
    expect(charges).toHaveLength(3);
    const [opening = 0, closing = 0] = [statement[0], statement.at(-1)].map((row) =>
      Number(row?.balance),
    );
    expect(opening + sum(column(statement, 'amount'))).toBe(closing);
    const { json } = await read('credits');
    expect(closing).toBe(Number(objectIn(json, 'balance').total));
  });

  test('contain only the header if there are no rows', async () => {
    const empty = await read('logs/export.csv?end_date=2020-01-01');
    expect(parseCsv(empty.text)).toHaveLength(1);
    const noDays = await read('analytics/export.csv?end_date=2020-01-01');
    expect(parseCsv(noDays.text)).toHaveLength(1);
  });

  test('accept the filters of the log', async () => {
    const rows = readTable((await read('logs/export.csv?model=acme/large&status=success')).text);
    expect(rows.map(({ model }) => model)).toEqual(['acme/large', 'acme/large']);
  });
});

describe('GET /v1/customer/credits', () => {
  test('shows credits held by a running request until it has ended', async () => {
    upstream.script('up-2', gated('half-way', 2, chatAnswer('one two three')));
    const running = chat('acme/large');
    await upstream.until((requests) => requests.find(({ outcome }) => outcome === 'open'));
    const during = objectIn((await read('credits')).json, 'balance');
    expect(Number(during.held)).toBeGreaterThan(0);
    expect(Number(during.available) + Number(during.held)).toBe(Number(during.total));
    upstream.open('half-way');
    costs.push(Number(objectIn((await running).json, 'usage').cost));
    upstream.script('up-2', chatAnswer('one two three'));
    expect(objectIn((await read('credits')).json, 'balance').held).toBe(0);
  });

  test('returns the balance, month, lifetime, and quotas', async () => {
    const { json } = await read('credits');
    const spent = sum(costs);
    const total = 1_000_000_000 - spent;
    expect(json.balance).toMatchObject({ total, usd: total / 1_000_000 });
    // No request is running, so nothing is held, whatever this process has leased.
    expect(json.balance).toMatchObject({ available: total, held: 0 });
    const month = new Date().toISOString().slice(0, 7);
    expect(json.current_period).toMatchObject({
      start_date: `${month}-01T00:00:00.000Z`,
      end_date: expect.stringMatching(new RegExp(`^${month}-\\d\\dT23:59:59\\.999Z$`)),
      requests: costs.length + 1,
      shared_model_spend: spent,
      byok_platform_fees: 0,
      managed_tool_fees: 0,
      agent_runtime_fees: 0,
      total_spend: spent,
    });
    expect(json.lifetime).toEqual({
      granted: 1_000_000_000,
      spent,
      adjusted: 0,
      requests: costs.length + 1,
    });
    expect(json.quotas).toEqual({
      requests_per_minute: 10_000,
      concurrent_requests: 64,
      key: { limit: null, used: spent, remaining: null, resets_at: null },
    });
  });
});
