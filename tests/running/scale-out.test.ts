/**
 * Four processes share only a Postgres and a Redis, as on four machines. Limits and charges are
 * correct across all of them, even if one process or server is killed.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { withinOneMinute } from '../support/clock-boundaries.ts';
import {
  chatAnswer,
  type FakeUpstreamProcess,
  gated,
  startFakeUpstreamProcess,
  words,
} from '../support/fake-upstream.ts';
import {
  type Answer,
  type ChatStream,
  type Gateway,
  type GatewayOptions,
  run,
  startGateway,
} from '../support/gateway.ts';
import { Traffic } from '../support/money/traffic.ts';
import { startPostgres } from '../support/postgres.ts';
import { longRedisTimeout, startRedis, type TestRedis } from '../support/redis.ts';
import { waitUntil } from '../support/wait-until.ts';

const testMs = 240_000;
const processes = 4;
let redis: TestRedis | undefined;
let upstream: FakeUpstreamProcess;
let options: GatewayOptions;
let gateways: Gateway[] = [];

beforeAll(async () => {
  redis = await startRedis();
  if (!redis) return;
  upstream = await startFakeUpstreamProcess({ lean: true });
  const price = { prompt: '2', completion: '3' };
  const flat = { prompt: '0', completion: '0', pricing: { request: '0.001' } };
  const models = {
    'test/chat': { ...price, name: 'chat' },
    'test/plain': { ...price, name: 'plain' },
    'test/flat': { ...flat, name: 'plain' },
    'test/gated': { ...price, name: 'gated' },
    'test/rolling': { ...price, name: 'rolling' },
  };
  await upstream.script('chat', chatAnswer(words(20), { chunkDelayMs: 4 }));
  await upstream.script('plain', chatAnswer(words(7)));
  options = {
    // Streams stay open while four gateways start.
    upstreams: { fake: { url: upstream.url, idle_timeout_ms: testMs, models } },
    config: { limits: { requests_per_minute: 1_000_000, concurrent_requests: 1_000 } },
    env: {
      DATABASE_URL: await (await startPostgres()).createDatabase(),
      REDIS_URL: redis.url,
      ...longRedisTimeout,
      TOLLGATE_SECRET_KEY: 'the same on all of the four machines',
      TOLLGATE_BOOTSTRAP_CREDITS: '1000000000000',
    },
  };
  const first = await startGateway(options);
  options = { ...options, keys: first.keys };
  const others = Array.from({ length: processes - 1 }, () => startGateway(options));
  gateways = [first, ...(await Promise.all(others))];
}, testMs);

afterAll(async () => {
  await Promise.all(gateways.map((gateway) => gateway.stop()));
  await upstream?.stop();
  await redis?.kill();
}, testMs);

/** Returns the gateways in turn. */
const gatewayAt = (i: number): Gateway => {
  const gateway = gateways[i % gateways.length];
  if (!gateway) throw new Error('There is no gateway.');
  return gateway;
};

const chatOf = (model: string) => ({ model, messages: [{ role: 'user', content: 'one two' }] });

/** Runs `count` calls, at most `concurrency` of them at a time. */
async function inParallel<T>(count: number, concurrency: number, run: (i: number) => Promise<T>) {
  const results: T[] = [];
  let next = 0;
  const lane = async () => {
    while (next < count) results.push(await run(next++));
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
  return results;
}

async function createKey(body: object): Promise<{ id: string; key: string }> {
  const created = await gatewayAt(0).manage('POST', '/api/v1/keys', body);
  return {
    id: isObject(created.body.data) ? String(created.body.data.id) : '',
    key: String(created.body.key),
  };
}

/** Returns a management key and routing keys of a new tenant. */
async function tenantKeys(limits: object, count: number): Promise<string[]> {
  const id = `tenant-${crypto.randomUUID().slice(0, 8)}`;
  const path = `/admin/v1/tenants/${id}`;
  const create = async (to: string, body: object) => {
    const { status, text, body: created } = await gatewayAt(0).admin('POST', to, body);
    if (status !== 201) throw new Error(`${status} ${text}`);
    return String(created.key);
  };
  await create('/admin/v1/tenants', { id, name: id, ...limits });
  await create(`${path}/credits`, { amount: 1_000_000, note: '', idempotency_key: id });
  const keys = [await create(`${path}/keys`, { name: 'management', management: true })];
  for (let i = 0; i < count; i++) keys.push(await create(`${path}/keys`, { name: `key ${i}` }));
  return keys;
}

/** Sends requests with one key and expects that exactly `limit` of them are admitted. */
async function expectAdmitted(requests: number, limit: number): Promise<void> {
  const answers = await withinOneMinute(async () => {
    const { key } = await createKey({ name: 'counted', requests_per_minute: limit });
    return inParallel(requests, 40, (i) => gatewayAt(i).chat(chatOf('test/plain'), { key }));
  });
  const admitted = answers.filter(({ status }) => status === 200);
  expect(admitted).toHaveLength(limit);
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(requests - limit);
  const remaining = admitted.map(({ headers }) => Number(headers.get('x-ratelimit-remaining')));
  expect(remaining.sort((a, b) => a - b)).toEqual(Array.from({ length: limit }, (_, i) => i));
  const resets = new Set(answers.map(({ headers }) => headers.get('x-ratelimit-reset')));
  expect(resets.size).toBe(1);
}

describe('four gateways', () => {
  test(
    'admit exactly 100 of 1,000 requests at 100 per minute, each with its own number',
    async () => {
      if (redis) await expectAdmitted(1_000, 100);
    },
    testMs,
  );

  test(
    "admit exactly a tenant's limit over all its keys and refuse a key with a higher one",
    async () => {
      if (!redis) return;
      const answers = await withinOneMinute(async () => {
        const [manager = '', ...keys] = await tenantKeys({ requests_per_minute: 20 }, 4);
        const above = { name: 'above', requests_per_minute: 21 };
        const refused = await gatewayAt(1).call('POST', '/api/v1/keys', {
          key: manager,
          body: above,
        });
        expect([refused.status, refused.error.param]).toEqual([400, 'requests_per_minute']);
        return inParallel(80, 8, (i) =>
          gatewayAt(i).chat(chatOf('test/plain'), { key: keys[i % keys.length] ?? '' }),
        );
      });
      const statuses = answers.map(({ status }) => status);
      expect(statuses.filter((status) => status === 200)).toHaveLength(20);
      expect(statuses.filter((status) => status === 429)).toHaveLength(60);
    },
    testMs,
  );

  test(
    'admit exactly 10 of 40 concurrent requests and free the slots afterward',
    async () => {
      if (!redis) return;
      await upstream.script('gated', gated('ten', 0, chatAnswer('done')));
      await gatewayAt(0).admin('POST', '/admin/v1/tenants', {
        id: 'ten',
        name: 'Ten',
        concurrent_requests: 10,
      });
      await gatewayAt(0).admin('POST', '/admin/v1/tenants/ten/credits', { amount: 1_000_000_000 });
      const created = await gatewayAt(0).admin('POST', '/admin/v1/tenants/ten/keys', {
        name: 'ten',
      });
      const key = String(created.body.key);
      const attempts = Array.from({ length: 40 }, (_, i) =>
        gatewayAt(i).chat(chatOf('test/gated'), { key }),
      );
      const statuses: number[] = [];
      for (const attempt of attempts) void attempt.then(({ status }) => statuses.push(status));
      await waitUntil(() => statuses.length >= 30);
      await upstream.open('ten');
      await Promise.all(attempts);
      expect(statuses.filter((status) => status === 200)).toHaveLength(10);
      expect(statuses.filter((status) => status === 429)).toHaveLength(30);
      const again = Array.from({ length: 10 }, (_, i) =>
        gatewayAt(i).chat(chatOf('test/gated'), { key }),
      );
      expect((await Promise.all(again)).map(({ status }) => status)).toEqual(Array(10).fill(200));
    },
    testMs,
  );

  test(
    'free a slot in all processes before the answer ends',
    async () => {
      if (!redis) return;
      const tenant = { id: 'single', name: 'Single', concurrent_requests: 1 };
      await gatewayAt(0).admin('POST', '/admin/v1/tenants', tenant);
      await gatewayAt(0).admin('POST', '/admin/v1/tenants/single/credits', {
        amount: 1_000_000_000,
      });
      const created = await gatewayAt(0).admin('POST', '/admin/v1/tenants/single/keys', {
        name: 'one',
      });
      const key = String(created.body.key);
      const statuses: number[] = [];
      for (let i = 0; i < 40; i++) {
        statuses.push((await gatewayAt(i).chat(chatOf('test/plain'), { key })).status);
      }
      expect(statuses).toEqual(Array(40).fill(200));
    },
    testMs,
  );

  test(
    'share token counts at the end of each request',
    async () => {
      if (!redis) return;
      const limits = { requests_per_minute: 100, tokens_per_minute: 20 };
      const limited = { ...options, config: { limits } };
      await using one = await startGateway(limited);
      await using other = await startGateway(limited);
      const answers = await withinOneMinute(async () => {
        const { key } = await createKey({ name: 'tokens' });
        const sent: Answer[] = [];
        // 2 words in and 7 out: 9, 18, and 27 of 20 tokens.
        for (const gateway of [one, other, one, other, one]) {
          sent.push(await gateway.chat(chatOf('test/plain'), { key }));
        }
        return sent;
      });
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429]);
      expect(String(answers[3]?.error.message)).toStartWith(
        'This API key is limited to 20 tokens per minute. Try again in ',
      );
      expect(answers[3]?.headers.get('x-ratelimit-remaining')).toBe('97');
      expect(Number(answers[3]?.headers.get('retry-after'))).toBeGreaterThan(0);
    },
    testMs,
  );

  test(
    'charge exactly 50 requests if the wallet covers 50',
    async () => {
      if (!redis) return;
      await gatewayAt(0).admin('POST', '/admin/v1/tenants', { id: 'fifty', name: 'Fifty' });
      // Each request costs 1,000 credits.
      await gatewayAt(0).admin('POST', '/admin/v1/tenants/fifty/credits', { amount: 50_000 });
      const created = await gatewayAt(0).admin('POST', '/admin/v1/tenants/fifty/keys', {
        name: 'fifty',
      });
      const key = String(created.body.key);
      const answers = await inParallel(400, 20, (i) =>
        gatewayAt(i).chat(chatOf('test/flat'), { key }),
      );
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(50);
      expect(answers.filter(({ status }) => status === 402)).toHaveLength(350);
      expect(await gatewayAt(1).balance('fifty')).toBe(0);
    },
    testMs,
  );

  test(
    'reject a revoked key in all processes',
    async () => {
      if (!redis) return;
      const { id, key } = await createKey({ name: 'revoked' });
      const accepts = async (gateway: Gateway) =>
        (await gateway.call('GET', '/v1/models', { key })).status === 200;
      for (const gateway of gateways) expect(await accepts(gateway)).toBe(true);
      const polling = gateways.map(async (gateway) => {
        for (let last = 0; ; await Bun.sleep(5)) {
          const sentAt = performance.now();
          if (!(await accepts(gateway))) return last;
          last = sentAt;
        }
      });
      await gatewayAt(2).manage('DELETE', `/api/v1/keys/${id}`);
      const answeredAt = performance.now();
      // The limit of 1 second is tested in auth/change-watch.test.ts. A busy machine may be slower.
      for (const last of await Promise.all(polling)) expect(last - answeredAt).toBeLessThan(10_000);
    },
    testMs,
  );
});

describe('four gateways under load', () => {
  /** Sends traffic to all gateways during an event, and returns what the clients saw. */
  async function underLoad(event: (traffic: Traffic) => Promise<void>): Promise<Traffic> {
    const traffic = new Traffic();
    const running = gateways.map((gateway) => traffic.send(gateway, 4, 'test/chat', 'test/plain'));
    await traffic.untilMore(50);
    await event(traffic);
    traffic.stop();
    await Promise.all(running);
    return traffic;
  }

  /** Counts the log lines of an event per gateway. */
  const countsOf = (event: string) =>
    gateways.map((gateway) => gateway.log().filter((line) => line.event === event).length);

  async function untilAllLogged(event: string, before: readonly number[]): Promise<void> {
    await waitUntil(() => countsOf(event).every((count, i) => count > (before[i] ?? 0)));
  }

  test.each(['killed and restarted', 'frozen and resumed'])(
    'answer every request while Redis is %s, and count exactly again afterward',
    async (fault) => {
      if (!redis) return;
      const server = redis;
      const [away, back] = [countsOf('redis_unreachable'), countsOf('redis_recovered')];
      const traffic = await underLoad(async (running) => {
        if (fault.startsWith('killed')) await server.kill();
        else server.pause();
        await untilAllLogged('redis_unreachable', away);
        await running.untilMore(100);
        if (fault.startsWith('killed')) await server.start();
        else server.resume();
        await untilAllLogged('redis_recovered', back);
        await running.untilMore(100);
      });
      expect(traffic.rejections).toEqual([]);
      expect(traffic.broken).toEqual([]);
      await expectAdmitted(200, 20);
    },
    testMs,
  );

  test(
    'count separately from their last known counts while Redis is down',
    async () => {
      if (!redis) return;
      const server = redis;
      const { before, alone, after } = await withinOneMinute(async () => {
        const [away, back] = [countsOf('redis_unreachable'), countsOf('redis_recovered')];
        const { key } = await createKey({ name: 'alone', requests_per_minute: 12 });
        const send = (i: number) => gatewayAt(i).chat(chatOf('test/plain'), { key });
        const before = await inParallel(8, 1, send);
        await server.kill();
        await untilAllLogged('redis_unreachable', away);
        const alone = await inParallel(80, 8, send);
        await server.start();
        await untilAllLogged('redis_recovered', back);
        return { before, alone, after: await inParallel(20, 4, send) };
      });
      const passed = (answers: readonly Answer[]) =>
        answers.filter(({ status }) => status === 200).length;
      expect(passed(before)).toBe(8);
      // The gateways' last known counts are 5, 6, 7, and 8 of 12.
      expect(passed(alone)).toBe(7 + 6 + 5 + 4);
      // The new Redis is empty, but the gateways remember their counts.
      expect(passed(after)).toBe(0);
    },
    testMs,
  );

  test(
    'lose only the open requests of a killed gateway, and keep the ledger consistent',
    async () => {
      if (!redis) return;
      const [victim, ...others] = gateways.toReversed();
      if (!victim) return;
      const own = new Traffic();
      const ownRunning = own.send(victim, 8, 'test/chat', 'test/plain');
      await own.untilMore(20);
      gateways = others;
      const traffic = await underLoad(async (running) => {
        await victim.kill9();
        await ownRunning;
        await running.untilMore(200);
      });
      expect(traffic.rejections).toEqual([]);
      expect(traffic.broken).toEqual([]);
      const env = options.env ?? {};
      expect(await run(['ledger', 'verify'], { env })).toMatchObject({ exitCode: 0 });
      // The replacement books the journal of the killed gateway. Interrupted requests are free.
      gateways = [...others, await startGateway({ ...options, dataDir: victim.dataDir })];
      await gateways.at(-1)?.untilLogged('journal_replayed');
      expect(await run(['ledger', 'verify'], { env })).toMatchObject({ exitCode: 0 });
    },
    testMs,
  );
});

test(
  'a rolling restart under load interrupts none of 200 streams and rejects no request',
  async () => {
    if (!redis) return;
    await upstream.script('rolling', gated('roll', 3, chatAnswer(words(8))));
    const streams = await inParallel(200, 20, async (i): Promise<ChatStream> => {
      const stream = await gatewayAt(i).stream(chatOf('test/rolling'));
      await stream.read(2);
      return stream;
    });
    const statuses: number[] = [];
    let isDone = false;
    // A load balancer sends new requests to gateways that are ready.
    let ready = [...gateways];
    const answered: number[] = Array(6).fill(0);
    const client = async (lane: number) => {
      for (let i = lane; !isDone; i++) {
        const gateway = ready[i % ready.length];
        if (gateway) statuses.push((await gateway.chat(chatOf('test/plain'))).status);
        answered[lane] = (answered[lane] ?? 0) + 1;
      }
    };
    const clients = answered.map((_, lane) => client(lane));
    const old = gateways;
    for (const gateway of old) {
      const next = await startGateway(options);
      ready = [...ready.filter((one) => one !== gateway), next];
      // Requests that were already sent are answered before the gateway drains.
      const before = [...answered];
      await waitUntil(() => answered.every((count, lane) => count >= (before[lane] ?? 0) + 4));
      gateway.signal('SIGTERM');
      await gateway.untilLogged('draining');
      expect((await gateway.call('GET', '/readyz')).status).toBe(503);
    }
    gateways = ready;
    await upstream.open('roll');
    const texts = await Promise.all(streams.map((stream) => stream.read()));
    expect(texts.filter((text) => text !== words(8))).toEqual([]);
    for (const gateway of old) expect(await gateway.stop()).toBe(0);
    isDone = true;
    await Promise.all(clients);
    expect(statuses.length).toBeGreaterThan(80);
    expect([...new Set(statuses)]).toEqual([200]);
    const { exitCode } = await run(['ledger', 'verify'], { env: options.env ?? {} });
    expect(exitCode).toBe(0);
  },
  testMs,
);
