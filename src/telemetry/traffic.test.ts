import { describe, expect, test } from 'bun:test';
import { endedRequest } from '../../tests/support/ended-request.ts';
import { Scrape } from '../../tests/support/prometheus.ts';
import { metricSeriesMax } from '../core/bounds.ts';
import { writeFamilies } from './prometheus.ts';
import { Traffic } from './traffic.ts';

const scrapeOf = (traffic: Traffic) => new Scrape(writeFamilies(traffic.families()));

describe('Traffic', () => {
  test('groups series beyond the limit under the label "other"', () => {
    const traffic = new Traffic(() => true);
    const extra = 50;
    for (let index = 0; index < metricSeriesMax + extra; index += 1) {
      const model = `test/${index}`;
      const attempt = { provider: 'first', model, outcome: 'answered', status: 200, ms: 1 };
      traffic.ended(endedRequest({ model, attempts: [attempt] }));
    }
    const seen = scrapeOf(traffic);
    expect(seen.series('tollgate_requests_total').length).toBe(metricSeriesMax + 1);
    const other = { operation: 'chat', model: 'other', provider: 'other' };
    const one = { ...other, traffic_mode: 'shared', outcome: 'success' };
    expect(seen.value('tollgate_requests_total', one)).toBe(extra);
    expect(seen.value('tollgate_credits_charged_total', { ...other, fee: 'model' })).toBe(
      18 * extra,
    );
    const attempts = { provider: 'other', model: 'other', outcome: 'answered' };
    expect(seen.value('tollgate_upstream_attempts_total', attempts)).toBe(extra);
  });

  test('includes failed attempts in the time to the first output', () => {
    const traffic = new Traffic(() => true);
    const failed = { provider: 'a', model: 'test/chat', outcome: 'server', status: 500, ms: 1900 };
    const answered = {
      provider: 'b',
      model: 'test/chat',
      outcome: 'answered',
      status: 200,
      ms: 200,
    };
    traffic.ended(endedRequest({ streamed: true, firstByteMs: 200, attempts: [failed, answered] }));
    const genAiLabels = {
      gen_ai_operation_name: 'chat',
      gen_ai_request_model: 'test/chat',
      gen_ai_provider_name: 'first',
    };
    const seen = scrapeOf(traffic);
    const name = 'gen_ai_server_time_to_first_token_seconds';
    expect(seen.value(`${name}_sum`, genAiLabels)).toBe(2.1);
    expect(seen.value(`${name}_bucket`, { ...genAiLabels, le: '1' })).toBe(0);
    expect(seen.value(`${name}_bucket`, { ...genAiLabels, le: '2.5' })).toBe(1);
  });

  test('counts replayed requests by provider', () => {
    const traffic = new Traffic(() => true);
    for (const provider of ['first', 'second', 'first']) traffic.replayed(provider);
    const seen = scrapeOf(traffic);
    const count = (provider: string) => seen.value('tollgate_upstream_replays_total', { provider });
    expect([count('first'), count('second')]).toEqual([2, 1]);
  });

  test('counts cached answers separately and without tokens', () => {
    const traffic = new Traffic(() => true);
    const charges = { modelCharge: 0, byokPlatformFee: 0, managedToolFee: 0, agentRuntimeFee: 0 };
    traffic.ended(endedRequest());
    traffic.ended(endedRequest({ cacheHit: true, attempts: [], firstByteMs: null, charges }));
    const seen = scrapeOf(traffic);
    const tollgateLabels = { operation: 'chat', model: 'test/chat', provider: 'first' };
    expect(seen.value('tollgate_cache_requests_total', { ...tollgateLabels, result: 'hit' })).toBe(
      1,
    );
    expect(seen.value('tollgate_cache_requests_total', { ...tollgateLabels, result: 'miss' })).toBe(
      1,
    );
    const input = {
      gen_ai_operation_name: 'chat',
      gen_ai_request_model: 'test/chat',
      gen_ai_provider_name: 'first',
      gen_ai_token_type: 'input',
    };
    expect(seen.value('gen_ai_client_token_usage_count', input)).toBe(1);
  });

  test('counts tokens by class, including audio and 1-hour cache writes', () => {
    const traffic = new Traffic(() => true);
    const usage = {
      inputTokens: 1,
      inputAudioTokens: 7,
      cacheReadTokens: 20,
      cacheWriteTokens: 300,
      cacheWrite1hTokens: 4000,
      outputTokens: 50_000,
      reasoningTokens: 600_000,
    };
    traffic.ended(endedRequest({ usage }));
    const tollgateLabels = { operation: 'chat', model: 'test/chat', provider: 'first' };
    const seen = scrapeOf(traffic);
    const of = (name: string) =>
      seen.value('tollgate_tokens_total', { ...tollgateLabels, class: name });
    expect(['input', 'cache_read', 'cache_write', 'output', 'reasoning'].map(of)).toEqual([
      8, 20, 4300, 50_000, 600_000,
    ]);
  });

  test('separates traffic modes and fees', () => {
    const traffic = new Traffic(() => true);
    const charges = { modelCharge: 0, byokPlatformFee: 3, managedToolFee: 0, agentRuntimeFee: 0 };
    traffic.ended(endedRequest());
    traffic.ended(endedRequest({ trafficMode: 'byok', charges, usageEstimated: true }));
    const seen = scrapeOf(traffic);
    const tollgateLabels = { operation: 'chat', model: 'test/chat', provider: 'first' };
    for (const traffic_mode of ['shared', 'byok']) {
      const one = { ...tollgateLabels, traffic_mode, outcome: 'success' };
      expect(seen.value('tollgate_requests_total', one)).toBe(1);
    }
    expect(seen.value('tollgate_credits_charged_total', { ...tollgateLabels, fee: 'model' })).toBe(
      18,
    );
    const fee = { ...tollgateLabels, fee: 'byok_platform' };
    expect(seen.value('tollgate_credits_charged_total', fee)).toBe(3);
    expect(seen.value('tollgate_estimated_usage_total', tollgateLabels)).toBe(1);
  });
});
