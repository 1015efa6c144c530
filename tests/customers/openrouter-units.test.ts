import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { InProcessGateway, type Reply } from '../support/in-process.ts';

// Clients of OpenRouter use the base URL /api/v1, take costs for dollars, and validate every field.

let gateway: InProcessGateway;
beforeAll(async () => {
  gateway = await InProcessGateway.start({ demo: true, providers: {}, models: [] });
});
afterAll(() => gateway.stop());

const body = { model: 'demo/chat', messages: [{ role: 'user', content: 'Hello!' }] };

/** What the request costs: 15 credits, of which 1,000,000 are a dollar. */
const credits = 15;
const usd = 0.000015;

function costOf({ json }: Pick<Reply, 'json'>): unknown {
  return isObject(json.usage) ? json.usage.cost : undefined;
}

function dataOf({ status, json }: Reply): Record<string, unknown> {
  expect(status).toBe(200);
  return isObject(json.data) ? json.data : {};
}

describe('costs in answers', () => {
  test('are dollars below /api/v1 and credits elsewhere', async () => {
    const input = { model: 'demo/chat', input: 'Hello!' };
    expect(costOf(await gateway.post(body, { path: '/api/v1/chat/completions' }))).toBe(usd);
    expect(costOf(await gateway.post(body))).toBe(credits);
    expect(costOf(await gateway.post(input, { path: '/api/v1/responses' }))).toBe(usd);
    expect(costOf(await gateway.post(input, { path: '/v1/responses' }))).toBe(credits);
  });

  test('are dollars in the last event of a stream', async () => {
    const { usage } = await gateway.stream(body, { path: '/api/v1/chat/completions' });
    expect(usage?.cost).toBe(usd);
    const input = { model: 'demo/chat', input: 'Hello!', stream: true };
    const events = await gateway.post(input, { path: '/api/v1/responses' });
    expect(events.text).toContain(`"cost":${usd}`);
  });

  test('are in the unit of each request when an answer is replayed', async () => {
    const headers = { 'idempotency-key': 'same-request' };
    const send = (path: string) => gateway.post(body, { path, headers });
    expect(costOf(await send('/v1/chat/completions'))).toBe(credits);
    const replayed = await send('/api/v1/chat/completions');
    expect(replayed.headers.get('idempotent-replayed')).toBe('true');
    expect(costOf(replayed)).toBe(usd);
  });
});

describe('GET /api/v1/generation', () => {
  test('has dollars and all fields that OpenRouter clients require', async () => {
    const { requestId } = await gateway.post({ ...body, user: 'u-1' });
    const plain = dataOf(await gateway.get(`/v1/generation?id=${requestId}`));
    expect(plain).toMatchObject({ total_cost: credits, usage: credits });
    const generation = dataOf(await gateway.get(`/api/v1/generation?id=${requestId}`));
    expect(generation).toEqual({
      ...plain,
      total_cost: usd,
      usage: usd,
      request_id: requestId,
      api_type: 'completions',
      is_byok: false,
      external_user: 'u-1',
      native_finish_reason: 'stop',
      native_tokens_cached: 0,
      native_tokens_reasoning: 0,
      provider_responses: [
        { provider_name: 'demo', status: 200, latency: expect.any(Number), is_byok: false },
      ],
      origin: '',
      ...nulls(
        'upstream_id cache_discount upstream_inference_cost app_id moderation_latency',
        'native_tokens_completion_images num_media_prompt num_input_audio_prompt',
        'num_media_completion num_search_results num_fetches router http_referer user_agent',
        'service_tier session_id web_search_engine response_cache_source_id',
      ),
    });
  });
});

describe('GET /api/v1/key', () => {
  test('has dollars and all fields that OpenRouter clients require', async () => {
    const limited = { limit: 2_000_000, limit_reset: 'monthly', requests_per_minute: 60 };
    const key = await gateway.makeKey(limited);
    await gateway.post(body, { key });
    const plain = dataOf(await gateway.get('/v1/key', { key }));
    expect(plain).toMatchObject({ limit: 2_000_000, usage: credits });
    expect(dataOf(await gateway.get('/api/v1/key', { key }))).toEqual({
      ...plain,
      last_used_at: expect.any(String),
      limit: 2,
      limit_remaining: 1.999985,
      usage: usd,
      usage_daily: usd,
      usage_weekly: usd,
      usage_monthly: usd,
      byok_usage: 0,
      byok_usage_daily: 0,
      byok_usage_weekly: 0,
      byok_usage_monthly: 0,
      include_byok_in_limit: false,
      is_free_tier: false,
      is_management_key: false,
      is_provisioning_key: false,
      creator_user_id: null,
      rate_limit: { requests: 60, interval: '1m', note: expect.any(String) },
    });
  });

  test('says that a management key is one, and null if there is no limit', async () => {
    const { management } = gateway.keys;
    const key = dataOf(await gateway.get('/api/v1/key', { key: management }));
    expect(key).toMatchObject({ is_management_key: true, limit: null, limit_remaining: null });
  });
});

describe('GET /api/v1/models', () => {
  test('has all fields that OpenRouter clients require', async () => {
    const { status, json } = await gateway.get('/api/v1/models');
    const data = Array.isArray(json.data) ? json.data : [];
    expect([status, json.total_count, json.links]).toEqual([200, data.length, { next: null }]);
    expect(data.find(({ id }) => id === 'demo/chat')).toMatchObject({
      canonical_slug: 'demo/chat',
      default_parameters: null,
      hugging_face_id: null,
      links: { details: '/api/v1/models/demo/chat' },
      per_request_limits: null,
    });
  });
});

test('GET /api/v1/credits counts credits, because the interface says so', async () => {
  const { management } = gateway.keys;
  const { total_credits } = dataOf(await gateway.get('/api/v1/credits', { key: management }));
  expect(total_credits).toBe(1_000_000_000_000);
});

function nulls(...lines: readonly string[]): Record<string, null> {
  return Object.fromEntries(
    lines.flatMap((line) => line.split(' ')).map((name) => [name, null] as const),
  );
}
