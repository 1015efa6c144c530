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
import { Admission, ConcurrencyLimiter } from '../../src/limits/admission.ts';
import { RateLimiter } from '../../src/limits/rate.ts';
import { callerOf } from '../support/caller.ts';
import {
  type Behavior,
  cutMidStream,
  gated,
  hangBeforeHeaders,
  hangMidStream,
  chatAnswer,
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

const chat = { model: 'acme/chat', messages: [{ role: 'user', content: 'hi' }] };

function rateHeaders({ headers }: Pick<Reply, 'headers'>) {
  return {
    limit: Number(headers.get('x-ratelimit-limit') ?? Number.NaN),
    remaining: Number(headers.get('x-ratelimit-remaining') ?? Number.NaN),
    resetAt: Number(headers.get('x-ratelimit-reset') ?? Number.NaN),
  };
}

describe('requests per minute', () => {
  // Windows start with the minute; a test that counts must not see one end.
  const leftMs = 42_500;
  beforeEach(() => {
    const minute = Math.ceil(Date.now() / 60_000) * 60_000;
    setSystemTime(minute - leftMs);
  });
  afterEach(() => setSystemTime());

  test('every routing response says where the key stands, errors included', async () => {
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
      expect(resetAt * 1000 - Date.now()).toBe(leftMs);
    });
  });

  test('so do those that take nothing: a count of tokens, a scope that is missing', async () => {
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
    const stand = replies.map((reply) => rateHeaders(reply));
    expect(stand.map(({ limit, remaining }) => [limit, remaining])).toEqual([
      [100, 100],
      [100, 100],
      [100, 100],
      [100, 99],
      [100, 99],
    ]);
    expect(new Set(stand.map(({ resetAt }) => resetAt)).size).toBe(1);
  });

  test('so do looks at jobs, which take nothing either', async () => {
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
    const stand = { limit: 100, remaining: 99 };
    for (const reply of replies) expect(rateHeaders(reply)).toMatchObject(stand);
  });

  test('exactly the allowed number passes, also when all come at once', async () => {
    // No more than may run at once: the other limit would refuse some of them.
    const key = await gateway.makeKey({ requests_per_minute: concurrentMax });
    const bodies = Array.from({ length: 20 }, () => gateway.post({}, { key }));
    const statuses = (await Promise.all(bodies)).map((reply) => reply.status);
    expect(statuses.filter((code) => code === 400)).toHaveLength(3);
    expect(statuses.filter((code) => code === 429)).toHaveLength(17);
  });

  test('the refusal says when to come back', async () => {
    const key = await gateway.makeKey({ requests_per_minute: 1 });
    expect((await gateway.post(chat, { key })).status).toBe(200);
    const reply = await gateway.post(chat, { key });
    expect(reply.status).toBe(429);
    expect(reply.error).toMatchObject({ type: 'rate_limit_exceeded', code: 429, param: null });
    const { remaining, resetAt } = rateHeaders(reply);
    expect(remaining).toBe(0);
    expect(resetAt * 1000 - Date.now()).toBe(leftMs);
    expect(reply.headers.get('retry-after')).toBe('43');
    expect(reply.headers.get('retry-after-ms')).toBe('42500');
    expect(reply.headers.has('x-should-retry')).toBe(false);
    expect(upstream.requests).toHaveLength(1);
  });

  test('each key has its own count', async () => {
    const one = await gateway.makeKey({ requests_per_minute: 1 });
    const two = await gateway.makeKey({ requests_per_minute: 1 });
    expect((await gateway.post(chat, { key: one })).status).toBe(200);
    expect((await gateway.post(chat, { key: one })).status).toBe(429);
    expect((await gateway.post(chat, { key: two })).status).toBe(200);
  });

  test('a new window starts with the minute, and a clock that steps back opens none', async () => {
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

describe('requests at the same time', () => {
  test('one more than the limit is 429 at once, and a place given back is free', async () => {
    upstream.script('chat-up', gated('go', 0, chatAnswer('done')));
    const running = Array.from({ length: concurrentMax }, () => gateway.post(chat));
    await upstream.until((requests) => requests.length === concurrentMax);
    const refused = await gateway.post(chat);
    expect(refused.status).toBe(429);
    expect(refused.error.type).toBe('rate_limit_exceeded');
    expect(refused.headers.get('retry-after')).toBe('1');
    upstream.open('go');
    expect((await Promise.all(running)).map((reply) => reply.status)).toEqual([200, 200, 200]);
    expect((await gateway.post(chat)).status).toBe(200);
  });

  test('no body is read without a place: not one to be counted, nor that of a job', async () => {
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
    // No job can be made of a chat, which is found when its body was read.
    for (let i = 0; i < concurrentMax + 2; i++) expect(await statuses()).toEqual([200, 400]);
    await expectAllFree();
  });

  test('another tenant has places of its own', async () => {
    const other = await gateway.makeTenant({ id: 'other', name: 'Other' });
    upstream.script('chat-up', gated('go', 0, chatAnswer('done')));
    const running = Array.from({ length: concurrentMax }, () => gateway.post(chat));
    await upstream.until((requests) => requests.length === concurrentMax);
    const theirs = gateway.post(chat, { key: other });
    await upstream.until((requests) => requests.length === concurrentMax + 1);
    upstream.open('go');
    expect((await theirs).status).toBe(200);
    await Promise.all(running);
  });

  const endings: [string, Behavior, object][] = [
    ['a whole answer', chatAnswer('ok'), chat],
    ['a stream', chatAnswer('ok'), { ...chat, stream: true }],
    ['an upstream error', status500(), chat],
    ['a refusal by the upstream', status(400), chat],
    ['a stream cut in the middle', cutMidStream(3), { ...chat, stream: true }],
    ['an unknown model', chatAnswer('ok'), { ...chat, model: 'acme/none' }],
    ['a bad body', chatAnswer('ok'), { nothing: true }],
  ];

  test.each(endings)('the place comes back after %s', async (_, behavior, body) => {
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
  ])('the place comes back after a client left %s', async (_, behavior, seen) => {
    upstream.script('chat-up', behavior);
    for (let i = 0; i < concurrentMax + 2; i++) {
      const leaving = new AbortController();
      const answer = gateway.fetch({ ...chat, stream: true }, { signal: leaving.signal });
      if (seen !== null) await new SlowReader(await answer).readUntil(seen);
      await upstream.until((requests) => requests[i]?.outcome === 'hung');
      leaving.abort();
      await answer.catch(() => undefined);
      await upstream.until((requests) => requests[i]?.outcome === 'client-disconnected');
    }
    await expectAllFree();
  });

  /** As many requests as there are places run at once. */
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
