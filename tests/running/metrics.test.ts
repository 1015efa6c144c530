/** What Prometheus reads, against numbers worked out by hand from what was sent. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Scrape, scrapeFresh } from '../support/prometheus.ts';
import {
  gated,
  chatAnswer,
  startFakeUpstream,
  status500,
  words,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
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

describe('requests that were answered', () => {
  let seen: Scrape;

  beforeAll(async () => {
    // Two whole and one streamed: 10 + 10 + 20 tokens in, 4 + 4 + 300 out, at 1 and 2 credits.
    upstream.script('chat', [
      chatAnswer('one two three four', { usage: { prompt: 10, completion: 4 } }),
      chatAnswer('one two three four', { usage: { prompt: 10, completion: 4 } }),
      chatAnswer(words(300), { usage: { prompt: 20, completion: 300 } }),
    ]);
    for (let at = 0; at < 2; at += 1) await gateway.post({ model: 'test/chat', messages });
    await gateway.stream({ model: 'test/chat', messages });
    seen = await scrape();
  });

  test('are counted once each, by what came of them', () => {
    const labels = { ...chat, traffic_mode: 'shared', outcome: 'success' };
    expect(seen.value('tollgate_requests_total', labels)).toBe(3);
    const route = { method: 'POST', route: '/v1/chat/completions', status: '200' };
    expect(seen.value('tollgate_http_responses_total', route)).toBe(3);
    const attempt = { provider: 'first', model: 'test/chat', outcome: 'answered' };
    expect(seen.value('tollgate_upstream_attempts_total', attempt)).toBe(3);
  });

  test('leave their tokens and credits', () => {
    expect(seen.value('tollgate_tokens_total', { ...chat, class: 'input' })).toBe(40);
    expect(seen.value('tollgate_tokens_total', { ...chat, class: 'output' })).toBe(308);
    expect(seen.value('tollgate_tokens_total', { ...chat, class: 'cache_read' })).toBe(0);
    expect(seen.value('tollgate_credits_charged_total', { ...chat, fee: 'model' })).toBe(656);
    expect(seen.value('tollgate_credits_charged_total', { ...chat, fee: 'byok_platform' })).toBe(0);
    expect(seen.value('tollgate_cache_requests_total', { ...chat, result: 'miss' })).toBe(3);
    expect(seen.value('tollgate_cache_requests_total', { ...chat, result: 'hit' })).toBe(0);
  });

  test('stand in the histograms of the conventions', () => {
    const duration = 'gen_ai_server_request_duration_seconds';
    expect(seen.types.get(duration)).toBe('histogram');
    expect(seen.value(`${duration}_count`, conventional)).toBe(3);
    expect(seen.value(`${duration}_bucket`, { ...conventional, le: '+Inf' })).toBe(3);
    // Only what is streamed has first words.
    const first = 'gen_ai_server_time_to_first_token_seconds';
    expect(seen.value(`${first}_count`, conventional)).toBe(1);
    const output = { ...conventional, gen_ai_token_type: 'output' };
    const tokens = 'gen_ai_client_token_usage';
    expect(seen.value(`${tokens}_sum`, output)).toBe(308);
    const upTo = (le: string) => seen.value(`${tokens}_bucket`, { ...output, le });
    // 4, 4 and 300 tokens: a bound belongs to its own bucket, and buckets add up.
    expect(['1', '4', '256', '1024', '+Inf'].map(upTo)).toEqual([0, 2, 2, 3, 3]);
  });
});

describe('requests that failed', () => {
  test('are counted with their attempts, each under its own name', async () => {
    upstream.script('broken', status500());
    upstream.script('works', chatAnswer('hi', { usage: { prompt: 5, completion: 1 } }));
    await gateway.post({ model: 'test/two', messages });
    upstream.script('works', status500());
    await gateway.post({ model: 'test/two', messages });
    const seen = await scrape();
    const two = { operation: 'chat', model: 'test/two', traffic_mode: 'shared' };
    const requests = 'tollgate_requests_total';
    expect(seen.value(requests, { ...two, provider: 'second', outcome: 'success' })).toBe(1);
    expect(seen.value(requests, { ...two, provider: 'none', outcome: 'upstream_error' })).toBe(1);
    const asked = { gen_ai_operation_name: 'chat', gen_ai_request_model: 'test/two' };
    const durations = 'gen_ai_server_request_duration_seconds_count';
    const failed = { ...asked, gen_ai_provider_name: 'none', error_type: 'upstream_error' };
    expect(seen.value(durations, failed)).toBe(1);
    expect(seen.value(durations, { ...asked, gen_ai_provider_name: 'second' })).toBe(1);
    const attempts = (provider: string, outcome: string) =>
      seen.value('tollgate_upstream_attempts_total', { provider, model: 'test/two', outcome });
    expect(attempts('first', 'server')).toBe(2);
    expect(attempts('second', 'server')).toBe(1);
    expect(attempts('second', 'answered')).toBe(1);
    // 5 tokens at 1 credit and 1 at 2; the failed one cost nothing.
    const fee = { operation: 'chat', model: 'test/two', provider: 'second', fee: 'model' };
    expect(seen.value('tollgate_credits_charged_total', fee)).toBe(7);
  });

  test('open a circuit, which is seen', async () => {
    upstream.script('broken', status500());
    upstream.script('works', chatAnswer('hi'));
    let seen = await scrape();
    const state = (provider: string, model: string) =>
      seen.value('tollgate_circuit_state', { provider, model });
    // It is half open after a while; the next call that fails opens it again.
    for (; state('first', 'test/two') !== 2; seen = await scrape()) {
      await gateway.post({ model: 'test/two', messages });
    }
    expect(state('second', 'test/two')).toBe(0);
    expect(state('first', 'test/chat')).toBe(0);
  });

  test('before they became requests are seen at their route', async () => {
    await gateway.post(
      { model: 'test/chat', messages },
      { key: 'sk-tg-nobody-has-this-key-000000' },
    );
    await gateway.get('/no/such/path');
    const seen = await scrape();
    const refused = { method: 'POST', route: '/v1/chat/completions', status: '401' };
    expect(seen.value('tollgate_http_responses_total', refused)).toBe(1);
    const lost = { method: 'none', route: 'none', status: '404' };
    expect(seen.value('tollgate_http_responses_total', lost)).toBe(1);
  });

  test('with models that nobody knows share one label, whatever they say', async () => {
    const before = (await scrape()).series('tollgate_requests_total').length;
    const names = ['nobody/knows', 'a"b\\c\nd{e="f"} 1', '\0', ...words(20).split(' ')];
    for (const model of names) await gateway.post({ model, messages });
    const seen = await scrape();
    expect(seen.series('tollgate_requests_total').length).toBe(before + 1);
    const unknown = { operation: 'chat', model: 'unknown', provider: 'none' };
    const labels = { ...unknown, traffic_mode: 'shared', outcome: 'invalid_request_error' };
    expect(seen.value('tollgate_requests_total', labels)).toBe(names.length);
  });
});

describe('what is true right now', () => {
  test('shows a running request, what it holds, and the journal that remembers it', async () => {
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
    // The one that runs and the one that asks.
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
    expect(after.value('tollgate_settlements_pending')).toBe(0);
    expect(after.value('tollgate_settlement_lag_seconds')).toBe(0);
  });

  test('shows the process', async () => {
    const seen = await scrape();
    expect(seen.value('process_resident_memory_bytes') ?? 0).toBeGreaterThan(10_000_000);
    const worst = seen.value('tollgate_event_loop_lag_seconds', { percentile: '100' });
    expect(worst).toBeGreaterThanOrEqual(0);
    expect(seen.value('tollgate_telemetry_failures_total')).toBe(0);
  });
});

test('every metric is documented with its type, and no other is', async () => {
  const page = readFileSync(join(import.meta.dir, '../../docs/metrics.md'), 'utf8');
  const rows = [...page.matchAll(/^\| `(\w+)` +\| (counter|gauge|histogram) +\|/gm)];
  const documented = rows.map(([, name, type]) => `${name} ${type}`);
  const seen = [...(await scrape()).types].map(([name, type]) => `${name} ${type}`);
  // These two are there only with a collector.
  const traces = ['tollgate_traces_waiting gauge', 'tollgate_traces_dropped_total counter'];
  expect(documented.toSorted()).toEqual([...seen, ...traces].toSorted());
});

test('is open, in the format of Prometheus, and tells of no tenant, key or prompt', async () => {
  const response = await fetch(`${gateway.url}/metrics`);
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  const text = await response.text();
  for (const secret of ['default', 'sk-', 'key_', 'Hello!', 'tenant=']) {
    expect(text).not.toContain(secret);
  }
});
