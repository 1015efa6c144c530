/** Compares the metrics with numbers that were calculated from the requests by hand. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  chatAnswer,
  gated,
  startFakeUpstream,
  status500,
  words,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { type Scrape, scrapeFresh } from '../support/prometheus.ts';
import { pricing, twoProviders } from '../support/two-providers.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
const messages = [{ role: 'user', content: 'Hello!' }];

beforeAll(async () => {
  const { providers, models } = twoProviders(upstream);
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers,
    models: [...models, chatModel('test/slow', [{ provider: 'first', model: 'slow', pricing }])],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

const scrape = () => scrapeFresh(gateway.url);

const chat = { operation: 'chat', model: 'test/chat', provider: 'first' };
const conventional = {
  gen_ai_operation_name: 'chat',
  gen_ai_request_model: 'test/chat',
  gen_ai_provider_name: 'first',
};

describe('metrics of answered requests', () => {
  let metrics: Scrape;

  beforeAll(async () => {
    // 2 full answers and a stream: 10 + 10 + 20 tokens in, 4 + 4 + 300 out, at 1 and 2 credits.
    upstream.script('chat', [
      chatAnswer('one two three four', { usage: { prompt: 10, completion: 4 } }),
      chatAnswer('one two three four', { usage: { prompt: 10, completion: 4 } }),
      chatAnswer(words(300), { usage: { prompt: 20, completion: 300 } }),
    ]);
    for (let index = 0; index < 2; index += 1) await gateway.post({ model: 'test/chat', messages });
    await gateway.stream({ model: 'test/chat', messages });
    metrics = await scrape();
  });

  test('count each request once, by outcome', () => {
    const labels = { ...chat, traffic_mode: 'shared', outcome: 'success' };
    expect(metrics.value('tollgate_requests_total', labels)).toBe(3);
    const route = { method: 'POST', route: '/v1/chat/completions', status: '200' };
    expect(metrics.value('tollgate_http_responses_total', route)).toBe(3);
    const attempt = { provider: 'first', model: 'test/chat', outcome: 'answered' };
    expect(metrics.value('tollgate_upstream_attempts_total', attempt)).toBe(3);
  });

  test('count tokens and credits', () => {
    expect(metrics.value('tollgate_tokens_total', { ...chat, class: 'input' })).toBe(40);
    expect(metrics.value('tollgate_tokens_total', { ...chat, class: 'output' })).toBe(308);
    expect(metrics.value('tollgate_tokens_total', { ...chat, class: 'cache_read' })).toBe(0);
    expect(metrics.value('tollgate_credits_charged_total', { ...chat, fee: 'model' })).toBe(656);
    expect(metrics.value('tollgate_credits_charged_total', { ...chat, fee: 'byok_platform' })).toBe(
      0,
    );
    expect(metrics.value('tollgate_cache_requests_total', { ...chat, result: 'miss' })).toBe(3);
    expect(metrics.value('tollgate_cache_requests_total', { ...chat, result: 'hit' })).toBe(0);
  });

  test('include the histograms of the OpenTelemetry conventions', () => {
    const duration = 'gen_ai_server_request_duration_seconds';
    expect(metrics.types.get(duration)).toBe('histogram');
    expect(metrics.value(`${duration}_count`, conventional)).toBe(3);
    expect(metrics.value(`${duration}_bucket`, { ...conventional, le: '+Inf' })).toBe(3);
    // Only streams have a time to first token.
    const first = 'gen_ai_server_time_to_first_token_seconds';
    expect(metrics.value(`${first}_count`, conventional)).toBe(1);
    const output = { ...conventional, gen_ai_token_type: 'output' };
    const tokens = 'gen_ai_client_token_usage';
    expect(metrics.value(`${tokens}_sum`, output)).toBe(308);
    const upTo = (le: string) => metrics.value(`${tokens}_bucket`, { ...output, le });
    // 4, 4, and 300 tokens. A bucket includes its bound, and buckets are cumulative.
    expect(['1', '4', '256', '1024', '+Inf'].map(upTo)).toEqual([0, 2, 2, 3, 3]);
  });
});

describe('metrics of failed requests', () => {
  test('count requests and attempts by provider and outcome', async () => {
    upstream.script('broken', status500());
    upstream.script('works', chatAnswer('hi', { usage: { prompt: 5, completion: 1 } }));
    await gateway.post({ model: 'test/two', messages });
    upstream.script('works', status500());
    await gateway.post({ model: 'test/two', messages });
    const metrics = await scrape();
    const two = { operation: 'chat', model: 'test/two', traffic_mode: 'shared' };
    const requests = 'tollgate_requests_total';
    expect(metrics.value(requests, { ...two, provider: 'second', outcome: 'success' })).toBe(1);
    expect(metrics.value(requests, { ...two, provider: 'none', outcome: 'upstream_error' })).toBe(
      1,
    );
    const request = { gen_ai_operation_name: 'chat', gen_ai_request_model: 'test/two' };
    const durations = 'gen_ai_server_request_duration_seconds_count';
    const failed = { ...request, gen_ai_provider_name: 'none', error_type: 'upstream_error' };
    expect(metrics.value(durations, failed)).toBe(1);
    expect(metrics.value(durations, { ...request, gen_ai_provider_name: 'second' })).toBe(1);
    const attempts = (provider: string, outcome: string) =>
      metrics.value('tollgate_upstream_attempts_total', { provider, model: 'test/two', outcome });
    expect(attempts('first', 'server')).toBe(2);
    expect(attempts('second', 'server')).toBe(1);
    expect(attempts('second', 'answered')).toBe(1);
    // 5 tokens at 1 credit and 1 at 2. The failed request cost nothing.
    const fee = { operation: 'chat', model: 'test/two', provider: 'second', fee: 'model' };
    expect(metrics.value('tollgate_credits_charged_total', fee)).toBe(7);
  });

  test('show an open circuit', async () => {
    upstream.script('broken', status500());
    upstream.script('works', chatAnswer('hi'));
    let metrics = await scrape();
    const state = (provider: string, model: string) =>
      metrics.value('tollgate_circuit_state', { provider, model });
    // After a while the circuit is half open, and the next failed call opens it again.
    for (; state('first', 'test/two') !== 2; metrics = await scrape()) {
      await gateway.post({ model: 'test/two', messages });
    }
    expect(state('second', 'test/two')).toBe(0);
    expect(state('first', 'test/chat')).toBe(0);
  });

  test('count rejections that occur before the handler, by route and status', async () => {
    await gateway.post(
      { model: 'test/chat', messages },
      { key: 'sk-tg-unknown-key-00000000000000' },
    );
    await gateway.get('/no/such/path');
    const metrics = await scrape();
    const rejected = { method: 'POST', route: '/v1/chat/completions', status: '401' };
    expect(metrics.value('tollgate_http_responses_total', rejected)).toBe(1);
    const unrouted = { method: 'none', route: 'none', status: '404' };
    expect(metrics.value('tollgate_http_responses_total', unrouted)).toBe(1);
  });

  test('use one label for all unknown models', async () => {
    const before = (await scrape()).series('tollgate_requests_total').length;
    const names = ['unknown/model', 'a"b\\c\nd{e="f"} 1', '\0', ...words(20).split(' ')];
    for (const model of names) await gateway.post({ model, messages });
    const metrics = await scrape();
    expect(metrics.series('tollgate_requests_total').length).toBe(before + 1);
    const unknown = { operation: 'chat', model: 'unknown', provider: 'none' };
    const labels = { ...unknown, traffic_mode: 'shared', outcome: 'invalid_request_error' };
    expect(metrics.value('tollgate_requests_total', labels)).toBe(names.length);
  });
});

describe('gauges', () => {
  test('show a running request, its held credits, and its journal', async () => {
    const idle = await scrape();
    expect(idle.value('tollgate_requests_in_flight')).toBe(0);
    upstream.script(
      'slow',
      gated('slow', 0, chatAnswer('done', { usage: { prompt: 3, completion: 1 } })),
    );
    const running = gateway.post({ model: 'test/slow', messages, max_tokens: 1000 });
    await upstream.until((requests) => requests.find((entry) => entry.model === 'slow'));
    const busy = await scrape();
    expect(busy.value('tollgate_requests_in_flight')).toBe(1);
    // The running chat request and the scrape itself.
    expect(busy.value('tollgate_open_requests')).toBe(2);
    expect(busy.value('tollgate_leases')).toBe(1);
    expect(busy.value('tollgate_held_credits') ?? 0).toBeGreaterThanOrEqual(2000);
    expect(busy.value('tollgate_leased_credits') ?? 0).toBeGreaterThanOrEqual(2000);
    expect(busy.value('tollgate_journal_bytes') ?? 0).toBeGreaterThan(0);
    expect(busy.value('tollgate_journal_age_seconds') ?? 0).toBeGreaterThan(0);
    upstream.open('slow');
    const { requestId } = await running;
    await gateway.record(requestId);
    const after = await scrape();
    expect(after.value('tollgate_requests_in_flight')).toBe(0);
    expect(after.value('tollgate_held_credits')).toBe(0);
    expect(after.value('tollgate_journal_age_seconds')).toBe(0);
    expect(after.value('tollgate_unbooked_requests')).toBe(0);
    expect(after.value('tollgate_settlement_lag_seconds')).toBe(0);
  });

  test('show memory and event-loop lag of the process', async () => {
    const metrics = await scrape();
    expect(metrics.value('process_resident_memory_bytes') ?? 0).toBeGreaterThan(10_000_000);
    const worst = metrics.value('tollgate_event_loop_lag_seconds', { percentile: '100' });
    expect(worst).toBeGreaterThanOrEqual(0);
    expect(metrics.value('tollgate_telemetry_failures_total')).toBe(0);
  });
});

test('docs/metrics.md lists every metric with its type, and no others', async () => {
  const page = readFileSync(join(import.meta.dir, '../../docs/metrics.md'), 'utf8');
  const rows = [...page.matchAll(/^\| `(\w+)` +\| (counter|gauge|histogram) +\|/gm)];
  const documented = rows.map(([, name, type]) => `${name} ${type}`);
  const exposed = [...(await scrape()).types].map(([name, type]) => `${name} ${type}`);
  // These two exist only with a trace collector.
  const traces = ['tollgate_traces_waiting gauge', 'tollgate_traces_dropped_total counter'];
  expect(documented.toSorted()).toEqual([...exposed, ...traces].toSorted());
});

test('GET /metrics needs no key and contains no tenant, key, or prompt', async () => {
  const response = await fetch(`${gateway.url}/metrics`);
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  const text = await response.text();
  for (const secret of ['default', 'sk-', 'key_', 'Hello!', 'tenant=']) {
    expect(text).not.toContain(secret);
  }
});
