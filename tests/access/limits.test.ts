import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  setSystemTime,
  test,
} from 'bun:test';
import { GatewayError } from '../../src/core/errors.ts';
import { isObject } from '../../src/core/json.ts';
import { Admission } from '../../src/limits/admission.ts';
import { ConcurrencyLimiter } from '../../src/limits/concurrency.ts';
import { RateLimiter } from '../../src/limits/rate.ts';
import { callerOf } from '../support/caller.ts';
import {
  type Behavior,
  chatAnswer,
  cutMidStream,
  gated,
  hangBeforeHeaders,
  hangMidStream,
  startFakeUpstream,
  status,
  status500,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway, type Reply } from '../support/in-process.ts';
import { SlowReader } from '../support/sse-client.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
const concurrentMax = 3;

beforeAll(async () => {
  const vendor = { dialect: 'openai', base_url: `${upstream.url}/v1` };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 50_000, concurrent_requests: concurrentMax },
    providers: { vendor },
    models: [chatModel('acme/chat', [{ provider: 'vendor', model: 'chat-up' }])],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const asManager = { management: true };
const chat = { model: 'acme/chat', messages: [{ role: 'user', content: 'hi' }] };

function rateHeaders({ headers }: Pick<Reply, 'headers'>) {
  return {
    limit: Number(headers.get('x-ratelimit-limit') ?? Number.NaN),
    remaining: Number(headers.get('x-ratelimit-remaining') ?? Number.NaN),
    resetAt: Number(headers.get('x-ratelimit-reset') ?? Number.NaN),
  };
}

describe('the limit of requests per minute', () => {
  // A window is one clock minute. Tests that count requests must not run into the next window.
  const remainingMs = 42_500;
  beforeEach(() => {
    const minute = Math.ceil(Date.now() / 60_000) * 60_000;
    setSystemTime(minute - remainingMs);
  });
  afterEach(() => setSystemTime());

  test('is reported in the headers of every inference response, including errors', async () => {
    const key = await gateway.makeKey({ requests_per_minute: 100 });
    upstream.script('chat-up', [chatAnswer('ok'), status500(), status(400), chatAnswer('ok')]);
    const replies = [
      await gateway.post(chat, { key }),
      await gateway.post(chat, { key }),
      await gateway.post(chat, { key }),
      await gateway.stream(chat, { key }),
      await gateway.post('{', { key }),
      await gateway.post({ ...chat, model: 'acme/none' }, { key }),
      await gateway.post({}, { key }),
    ];
    expect(replies.map((reply) => reply.status)).toEqual([200, 502, 400, 200, 400, 404, 400]);
    replies.forEach((reply, i) => {
      const { limit, remaining, resetAt } = rateHeaders(reply);
      expect([limit, remaining]).toEqual([100, 99 - i]);
      expect(resetAt % 60).toBe(0);
      expect(resetAt * 1000 - Date.now()).toBe(remainingMs);
    });
  });

  test('is reported, but token counts and rejected scopes do not count against it', async () => {
    const key = await gateway.makeKey({ requests_per_minute: 100, scopes: ['chat'] });
    const count = { key, path: '/v1/messages/count_tokens' };
    const replies = [
      await gateway.post(chat, count),
      await gateway.post({}, count),
      await gateway.post({}, { key, path: '/v1/embeddings' }),
      await gateway.post(chat, { key }),
      await gateway.post(chat, count),
    ];
    expect(replies.map((reply) => reply.status)).toEqual([200, 400, 403, 200, 200]);
    const rates = replies.map((reply) => rateHeaders(reply));
    expect(rates.map(({ limit, remaining }) => [limit, remaining])).toEqual([
      [100, 100],
      [100, 100],
      [100, 100],
      [100, 99],
      [100, 99],
    ]);
    expect(new Set(rates.map(({ resetAt }) => resetAt)).size).toBe(1);
  });

  test('is reported, but reading jobs does not count against it', async () => {
    const key = await gateway.makeKey({ requests_per_minute: 100 });
    await gateway.post(chat, { key });
    const headers = { authorization: `Bearer ${key}` };
    const replies = [
      await gateway.get('/v1/jobs', { key }),
      await gateway.get('/v1/jobs?limit=0', { key }),
      await gateway.get('/v1/jobs/job_none', { key }),
      await fetch(`${gateway.url}/v1/jobs/job_none`, { method: 'DELETE', headers }),
    ];
    expect(replies.map((reply) => reply.status)).toEqual([200, 400, 404, 404]);
    const rate = { limit: 100, remaining: 99 };
    for (const reply of replies) expect(rateHeaders(reply)).toMatchObject(rate);
  });

  test('admits exactly the limit when requests arrive concurrently', async () => {
    // Sends no more requests than the concurrency limit, which would reject the others.
    const key = await gateway.makeKey({ requests_per_minute: concurrentMax });
    const bodies = Array.from({ length: 20 }, () => gateway.post({}, { key }));
    const statuses = (await Promise.all(bodies)).map((reply) => reply.status);
    expect(statuses.filter((code) => code === 400)).toHaveLength(3);
    expect(statuses.filter((code) => code === 429)).toHaveLength(17);
  });

  test('returns 429 with the time to wait', async () => {
    const key = await gateway.makeKey({ requests_per_minute: 1 });
    expect((await gateway.post(chat, { key })).status).toBe(200);
    const reply = await gateway.post(chat, { key });
    expect(reply.status).toBe(429);
    expect(reply.error).toMatchObject({ type: 'rate_limit_exceeded', code: 429, param: null });
    const { remaining, resetAt } = rateHeaders(reply);
    expect(remaining).toBe(0);
    expect(resetAt * 1000 - Date.now()).toBe(remainingMs);
    expect(reply.headers.get('retry-after')).toBe('43');
    expect(reply.headers.get('retry-after-ms')).toBe('42500');
    expect(reply.headers.has('x-should-retry')).toBe(false);
    expect(upstream.requests).toHaveLength(1);
  });

  test('applies to each key separately', async () => {
    const one = await gateway.makeKey({ requests_per_minute: 1 });
    const two = await gateway.makeKey({ requests_per_minute: 1 });
    expect((await gateway.post(chat, { key: one })).status).toBe(200);
    expect((await gateway.post(chat, { key: one })).status).toBe(429);
    expect((await gateway.post(chat, { key: two })).status).toBe(200);
  });

  test("admits a tenant's limit once for all its keys and says whose limit it is", async () => {
    const limit = { requests_per_minute: 3 };
    const manager = await gateway.makeTenant({ id: 'three', name: 'Three', ...limit }, asManager);
    const [one, two] = [await gateway.makeKey({}, manager), await gateway.makeKey(limit, manager)];
    const replies: Reply[] = [];
    for (const key of [one, two, one]) replies.push(await gateway.post(chat, { key }));
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(replies.map((reply) => rateHeaders(reply).remaining)).toEqual([2, 1, 0]);
    const rejected = await gateway.post(chat, { key: two });
    expect([rejected.status, rejected.error.message]).toEqual([
      429,
      'This tenant is limited to 3 requests per minute, shared by all its keys. Try again in 43 s.',
    ]);
    expect(rateHeaders(rejected)).toMatchObject({ limit: 3, remaining: 0 });
    expect((await gateway.post(chat)).status).toBe(200);
  });

  test("reports the tighter of the key's and the tenant's limit in the headers", async () => {
    const limit = { requests_per_minute: 4 };
    const manager = await gateway.makeTenant({ id: 'four', name: 'Four', ...limit }, asManager);
    const wide = await gateway.makeKey({}, manager);
    const narrow = await gateway.makeKey({ requests_per_minute: 2 }, manager);
    const rates: number[][] = [];
    for (const key of [narrow, wide, narrow, narrow, wide, wide]) {
      const reply = await gateway.post(chat, { key });
      const { limit, remaining } = rateHeaders(reply);
      rates.push([reply.status, limit, remaining]);
    }
    expect(rates).toEqual([
      [200, 2, 1],
      [200, 4, 2],
      [200, 2, 0],
      // A request that its key's limit rejects doesn't count against the tenant's.
      [429, 2, 0],
      [200, 4, 0],
      [429, 4, 0],
    ]);
  });

  test("rejects a key's limit above its tenant's, or above the default if it has none", async () => {
    const nine = { id: 'nine', name: 'Nine', requests_per_minute: 9 };
    const unlimited = { id: 'default-rate', name: 'Default' };
    for (const [tenant, highest] of [[nine, 9] as const, [unlimited, 50_000] as const]) {
      const key = await gateway.makeTenant(tenant, asManager);
      const write = (value: number) =>
        gateway.post({ name: 'a', requests_per_minute: value }, { path: '/api/v1/keys', key });
      const above = await write(highest + 1);
      expect([above.status, above.error.param, above.error.message]).toEqual([
        400,
        'requests_per_minute',
        `requests_per_minute is ${highest + 1}, but keys of this tenant can have at most ` +
          `${highest}. Lower it, or have the operator raise the tenant's limit.`,
      ]);
      const created = await write(highest);
      expect(created.status).toBe(201);
      const { id } = isObject(created.json.data) ? created.json.data : {};
      const change = async (value: number) => {
        const headers = { authorization: `Bearer ${key}` };
        const init = {
          method: 'PATCH',
          headers,
          body: JSON.stringify({ requests_per_minute: value }),
        };
        return (await fetch(`${gateway.url}/api/v1/keys/${id}`, init)).status;
      };
      expect([await change(highest + 1), await change(highest)]).toEqual([400, 200]);
    }
    // The operator can give a key more than the default.
    const fields = { requests_per_minute: 60_000 };
    const faster = await gateway.makeTenant({ id: 'faster', name: 'Faster' }, fields);
    expect(rateHeaders(await gateway.post(chat, { key: faster })).limit).toBe(60_000);
  });

  test('resets with the minute, but not when the clock is set back', async () => {
    let now = Date.UTC(2026, 0, 1, 12, 0, 59, 900);
    const admission = new Admission({
      rate: new RateLimiter(),
      concurrency: new ConcurrencyLimiter(),
      defaults: { requestsPerMinute: 2, concurrentRequests: 9 },
      now: () => now,
    });
    const headers: Record<string, string> = {};
    const count = () => admission.countRequest(caller, headers);
    const refusal = async () => {
      try {
        await count();
      } catch (error) {
        return error instanceof GatewayError ? error : undefined;
      }
      return undefined;
    };
    await count();
    await count();
    expect((await refusal())?.retryAfterSeconds).toBeCloseTo(0.1);
    expect(headers['x-ratelimit-reset']).toBe(String(Date.UTC(2026, 0, 1, 12, 1) / 1000));
    now += 100;
    await count();
    expect(headers['x-ratelimit-remaining']).toBe('1');
    now -= 5_000;
    await count();
    expect((await refusal())?.status).toBe(429);
  });
});

const caller = callerOf('default', { keyId: 'key_1' });

describe('the concurrency limit', () => {
  test('returns 429 above the limit until a slot is free', async () => {
    upstream.script('chat-up', gated('go', 0, chatAnswer('done')));
    const running = Array.from({ length: concurrentMax }, () => gateway.post(chat));
    await upstream.until((requests) => requests.length === concurrentMax);
    const rejected = await gateway.post(chat);
    expect(rejected.status).toBe(429);
    expect(rejected.error.type).toBe('rate_limit_exceeded');
    expect(rejected.headers.get('retry-after')).toBe('1');
    upstream.open('go');
    expect((await Promise.all(running)).map((reply) => reply.status)).toEqual([200, 200, 200]);
    expect((await gateway.post(chat)).status).toBe(200);
  });

  test('applies before the body is read, also to token counts and jobs', async () => {
    const paths = ['/v1/messages/count_tokens', '/v1/jobs'];
    const statuses = async () => {
      const replies = await Promise.all(paths.map((path) => gateway.post(chat, { path })));
      return replies.map(({ status }) => status);
    };
    upstream.script('chat-up', gated('go', 0, chatAnswer('done')));
    const running = Array.from({ length: concurrentMax }, () => gateway.post(chat));
    await upstream.until((requests) => requests.length === concurrentMax);
    expect(await statuses()).toEqual([429, 429]);
    upstream.open('go');
    await Promise.all(running);
    // A chat body isn't a valid job, so a 400 shows that the body was read.
    for (let i = 0; i < concurrentMax + 2; i++) expect(await statuses()).toEqual([200, 400]);
    await expectAllFree();
  });

  test('applies to each tenant separately', async () => {
    const other = await gateway.makeTenant({ id: 'other', name: 'Other' });
    upstream.script('chat-up', gated('go', 0, chatAnswer('done')));
    const running = Array.from({ length: concurrentMax }, () => gateway.post(chat));
    await upstream.until((requests) => requests.length === concurrentMax);
    const otherReply = gateway.post(chat, { key: other });
    await upstream.until((requests) => requests.length === concurrentMax + 1);
    upstream.open('go');
    expect((await otherReply).status).toBe(200);
    await Promise.all(running);
  });

  const outcomes: [string, Behavior, object][] = [
    ['a complete answer', chatAnswer('ok'), chat],
    ['a stream', chatAnswer('ok'), { ...chat, stream: true }],
    ['an upstream error', status500(), chat],
    ['a rejection by the provider', status(400), chat],
    ['a stream that is cut off in the middle', cutMidStream(3), { ...chat, stream: true }],
    ['an unknown model', chatAnswer('ok'), { ...chat, model: 'acme/none' }],
    ['an invalid body', chatAnswer('ok'), { nothing: true }],
  ];

  test.each(outcomes)('frees the slot after %s', async (_, behavior, body) => {
    upstream.script('chat-up', behavior);
    for (let i = 0; i < concurrentMax + 2; i++) {
      const reply = await gateway.post(body);
      expect(reply.status).not.toBe(429);
    }
    await expectAllFree();
  });

  test.each<[string, Behavior, string | null]>([
    ['before the headers', hangBeforeHeaders(), null],
    ['before the first event', hangMidStream(0), null],
    ['in the middle', hangMidStream(4), 'w3'],
  ])('frees the slot after a client disconnects %s', async (_, behavior, untilText) => {
    upstream.script('chat-up', behavior);
    for (let i = 0; i < concurrentMax + 2; i++) {
      const client = new AbortController();
      const answer = gateway.fetch({ ...chat, stream: true }, { signal: client.signal });
      if (untilText !== null) await new SlowReader(await answer).readUntil(untilText);
      await upstream.until((requests) => requests[i]?.outcome === 'hung');
      client.abort();
      await answer.catch(() => undefined);
      await upstream.until((requests) => requests[i]?.outcome === 'client-disconnected');
    }
    await expectAllFree();
  });

  /** Checks that the maximum number of requests can run concurrently. */
  async function expectAllFree(): Promise<void> {
    upstream.reset();
    upstream.script('chat-up', gated('all', 0, chatAnswer('ok')));
    const running = Array.from({ length: concurrentMax }, () => gateway.post(chat));
    await upstream.until((requests) => requests.length === concurrentMax);
    upstream.open('all');
    const statuses = (await Promise.all(running)).map((reply) => reply.status);
    expect(statuses).toEqual(Array.from({ length: concurrentMax }, () => 200));
  }
});
