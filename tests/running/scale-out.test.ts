/**
 * Four processes with nothing in common but one Postgres and one Redis, as on four machines. What
 * one of them promises, they promise together, whichever of them and of their servers dies.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import {
  type FakeUpstreamProcess,
  gated,
  chatAnswer,
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
import { withinOneMinute } from '../support/clock-boundaries.ts';
import { startPostgres } from '../support/postgres.ts';
import { longRedisTimeout, startRedis, type TestRedis } from '../support/redis.ts';

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
    // Streams are held open for as long as four starts take.
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

/** One of the four, in turn. */
const turn = (i: number): Gateway => {
  const gateway = gateways[i % gateways.length];
  if (!gateway) throw new Error('There is no gateway.');
  return gateway;
};

const ask = (model: string) => ({ model, messages: [{ role: 'user', content: 'one two' }] });

/** Runs so many jobs, so many at a time. */
async function inParallel<T>(count: number, atOnce: number, job: (i: number) => Promise<T>) {
  const results: T[] = [];
  let next = 0;
  const lane = async () => {
    while (next < count) results.push(await job(next++));
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  return results;
}

async function makeKey(body: object): Promise<{ id: string; key: string }> {
  const made = await turn(0).manage('POST', '/api/v1/keys', body);
  return {
    id: isObject(made.body.data) ? String(made.body.data.id) : '',
    key: String(made.body.key),
  };
}

/** What became of requests of one key that may send so many a minute. */
async function admittedOf(requests: number, limit: number): Promise<void> {
  const answers = await withinOneMinute(async () => {
    const { key } = await makeKey({ name: 'counted', requests_per_minute: limit });
    return inParallel(requests, 40, (i) => turn(i).chat(ask('test/plain'), { key }));
  });
  const passed = answers.filter(({ status }) => status === 200);
  expect(passed).toHaveLength(limit);
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(requests - limit);
  const remaining = passed.map(({ headers }) => Number(headers.get('x-ratelimit-remaining')));
  expect(remaining.sort((a, b) => a - b)).toEqual(Array.from({ length: limit }, (_, i) => i));
  const resets = new Set(answers.map(({ headers }) => headers.get('x-ratelimit-reset')));
  expect(resets.size).toBe(1);
}

describe('limits', () => {
  test(
    'a hundred a minute are exactly a hundred of a thousand, each with its own number',
    async () => {
      if (redis) await admittedOf(1_000, 100);
    },
    testMs,
  );

  test(
    'ten at once are exactly ten of forty, and all are free again afterwards',
    async () => {
      if (!redis) return;
      await upstream.script('gated', gated('ten', 0, chatAnswer('done')));
      await turn(0).admin('POST', '/admin/v1/tenants', {
        id: 'ten',
        name: 'Ten',
        concurrent_requests: 10,
      });
      await turn(0).admin('POST', '/admin/v1/tenants/ten/credits', { amount: 1_000_000_000 });
      const made = await turn(0).admin('POST', '/admin/v1/tenants/ten/keys', { name: 'ten' });
      const key = String(made.body.key);
      const attempts = Array.from({ length: 40 }, (_, i) =>
        turn(i).chat(ask('test/gated'), { key }),
      );
      const statuses: number[] = [];
      for (const attempt of attempts) void attempt.then(({ status }) => statuses.push(status));
      while (statuses.length < 30) await Bun.sleep(5);
      await upstream.open('ten');
      await Promise.all(attempts);
      expect(statuses.filter((status) => status === 200)).toHaveLength(10);
      expect(statuses.filter((status) => status === 429)).toHaveLength(30);
      const again = Array.from({ length: 10 }, (_, i) => turn(i).chat(ask('test/gated'), { key }));
      expect((await Promise.all(again)).map(({ status }) => status)).toEqual(Array(10).fill(200));
    },
    testMs,
  );

  test(
    'a place that was left at one is free at the next for whoever has the answer',
    async () => {
      if (!redis) return;
      const tenant = { id: 'single', name: 'Single', concurrent_requests: 1 };
      await turn(0).admin('POST', '/admin/v1/tenants', tenant);
      await turn(0).admin('POST', '/admin/v1/tenants/single/credits', { amount: 1_000_000_000 });
      const made = await turn(0).admin('POST', '/admin/v1/tenants/single/keys', { name: 'one' });
      const key = String(made.body.key);
      const statuses: number[] = [];
      for (let i = 0; i < 40; i++) {
        statuses.push((await turn(i).chat(ask('test/plain'), { key })).status);
      }
      expect(statuses).toEqual(Array(40).fill(200));
    },
    testMs,
  );

  test(
    'tokens that one has counted are counted by another, at the end of each request',
    async () => {
      if (!redis) return;
      const limits = { requests_per_minute: 100, tokens_per_minute: 20 };
      const limited = { ...options, config: { limits } };
      await using one = await startGateway(limited);
      await using other = await startGateway(limited);
      const answers = await withinOneMinute(async () => {
        const { key } = await makeKey({ name: 'tokens' });
        const sent: Answer[] = [];
        // Two words in and seven out: 9, 18 and 27 of the twenty.
        for (const gateway of [one, other, one, other, one]) {
          sent.push(await gateway.chat(ask('test/plain'), { key }));
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
    'a wallet for fifty pays for exactly fifty',
    async () => {
      if (!redis) return;
      await turn(0).admin('POST', '/admin/v1/tenants', { id: 'fifty', name: 'Fifty' });
      // A thousand credits each, whatever it says.
      await turn(0).admin('POST', '/admin/v1/tenants/fifty/credits', { amount: 50_000 });
      const made = await turn(0).admin('POST', '/admin/v1/tenants/fifty/keys', { name: 'fifty' });
      const key = String(made.body.key);
      const answers = await inParallel(400, 20, (i) => turn(i).chat(ask('test/flat'), { key }));
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(50);
      expect(answers.filter(({ status }) => status === 402)).toHaveLength(350);
      expect(await turn(1).balance('fifty')).toBe(0);
    },
    testMs,
  );

  test(
    'a revoked key is dead on all four soon after',
    async () => {
      if (!redis) return;
      const { id, key } = await makeKey({ name: 'doomed' });
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
      await turn(2).manage('DELETE', `/api/v1/keys/${id}`);
      const answeredAt = performance.now();
      // A second is promised (auth/change-watch.test.ts); the machine may stand still in between.
      for (const last of await Promise.all(polling)) expect(last - answeredAt).toBeLessThan(10_000);
    },
    testMs,
  );
});

describe('a server that dies', () => {
  /** Traffic on all four while something happens; answers what the clients saw. */
  async function underLoad(happening: (traffic: Traffic) => Promise<void>): Promise<Traffic> {
    const traffic = new Traffic();
    const running = gateways.map((gateway) => traffic.send(gateway, 4, 'test/chat', 'test/plain'));
    await traffic.untilMore(50);
    await happening(traffic);
    traffic.stop();
    await Promise.all(running);
    return traffic;
  }

  /** How often each of the four has said so. */
  const said = (event: string) =>
    gateways.map((gateway) => gateway.log().filter((line) => line.event === event).length);

  async function untilAllSaid(event: string, before: readonly number[]): Promise<void> {
    while (!said(event).every((count, i) => count > (before[i] ?? 0))) await Bun.sleep(10);
  }

  test.each(['killed and started again', 'frozen and thawed'])(
    'Redis %s under load: every request is answered, and the count is exact again',
    async (how) => {
      if (!redis) return;
      const server = redis;
      const [away, back] = [said('redis_away'), said('redis_back')];
      const traffic = await underLoad(async (running) => {
        if (how.startsWith('killed')) await server.kill();
        else server.pause();
        await untilAllSaid('redis_away', away);
        await running.untilMore(100);
        if (how.startsWith('killed')) await server.start();
        else server.resume();
        await untilAllSaid('redis_back', back);
        await running.untilMore(100);
      });
      expect(traffic.refusals).toEqual([]);
      expect(traffic.broken).toEqual([]);
      await admittedOf(200, 20);
    },
    testMs,
  );

  test(
    'while Redis is away each counts for itself, from what it knew',
    async () => {
      if (!redis) return;
      const server = redis;
      const { before, alone, after } = await withinOneMinute(async () => {
        const [away, back] = [said('redis_away'), said('redis_back')];
        const { key } = await makeKey({ name: 'alone', requests_per_minute: 12 });
        const send = (i: number) => turn(i).chat(ask('test/plain'), { key });
        const before = await inParallel(8, 1, send);
        await server.kill();
        await untilAllSaid('redis_away', away);
        const alone = await inParallel(80, 8, send);
        await server.start();
        await untilAllSaid('redis_back', back);
        return { before, alone, after: await inParallel(20, 4, send) };
      });
      const passed = (answers: readonly Answer[]) =>
        answers.filter(({ status }) => status === 200).length;
      expect(passed(before)).toBe(8);
      // They last heard of 5, 6, 7 and 8 of the twelve.
      expect(passed(alone)).toBe(7 + 6 + 5 + 4);
      // The new Redis is empty, but those who ask it remember.
      expect(passed(after)).toBe(0);
    },
    testMs,
  );

  test(
    'one of four killed: only its own open requests fail, and the books are right',
    async () => {
      if (!redis) return;
      const [doomed, ...others] = gateways.toReversed();
      if (!doomed) return;
      const own = new Traffic();
      const ownRunning = own.send(doomed, 8, 'test/chat', 'test/plain');
      await own.untilMore(20);
      gateways = others;
      const traffic = await underLoad(async (running) => {
        await doomed.kill9();
        await ownRunning;
        await running.untilMore(200);
      });
      expect(traffic.refusals).toEqual([]);
      expect(traffic.broken).toEqual([]);
      const env = options.env ?? {};
      expect(await run(['ledger', 'verify'], { env })).toMatchObject({ exitCode: 0 });
      // Its successor finds its journal, and what was under way costs nothing.
      gateways = [...others, await startGateway({ ...options, dataDir: doomed.dataDir })];
      await gateways.at(-1)?.untilLogged('journal_replayed');
      expect(await run(['ledger', 'verify'], { env })).toMatchObject({ exitCode: 0 });
    },
    testMs,
  );
});

test(
  'a rolling restart under load cuts none of 200 open streams and refuses nobody',
  async () => {
    if (!redis) return;
    await upstream.script('rolling', gated('roll', 3, chatAnswer(words(8))));
    const streams = await inParallel(200, 20, async (i): Promise<ChatStream> => {
      const stream = await turn(i).stream(ask('test/rolling'));
      await stream.read(2);
      return stream;
    });
    const statuses: number[] = [];
    let isOver = false;
    // A balancer sends new requests to those that are ready.
    let ready = [...gateways];
    const answered: number[] = Array(6).fill(0);
    const client = async (lane: number) => {
      for (let i = lane; !isOver; i++) {
        const gateway = ready[i % ready.length];
        if (gateway) statuses.push((await gateway.chat(ask('test/plain'))).status);
        answered[lane] = (answered[lane] ?? 0) + 1;
      }
    };
    const clients = answered.map((_, lane) => client(lane));
    const old = gateways;
    for (const gateway of old) {
      const next = await startGateway(options);
      ready = [...ready.filter((one) => one !== gateway), next];
      // Those that were already on their way are answered before it drains.
      const before = [...answered];
      while (answered.some((count, lane) => count < (before[lane] ?? 0) + 4)) await Bun.sleep(5);
      gateway.signal('SIGTERM');
      await gateway.untilLogged('draining');
      expect((await gateway.call('GET', '/readyz')).status).toBe(503);
    }
    gateways = ready;
    await upstream.open('roll');
    const texts = await Promise.all(streams.map((stream) => stream.read()));
    expect(texts.filter((text) => text !== words(8))).toEqual([]);
    for (const gateway of old) expect(await gateway.stop()).toBe(0);
    isOver = true;
    await Promise.all(clients);
    expect(statuses.length).toBeGreaterThan(80);
    expect([...new Set(statuses)]).toEqual([200]);
    const { exitCode } = await run(['ledger', 'verify'], { env: options.env ?? {} });
    expect(exitCode).toBe(0);
  },
  testMs,
);
