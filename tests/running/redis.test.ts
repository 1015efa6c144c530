/** The Redis client and shared counts with a real server that is killed, frozen, and emptied. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { slotTtlMs } from '../../src/core/bounds.ts';
import { countScripts, RedisCounts } from '../../src/store/redis/counts.ts';
import { Redis, Script } from '../../src/store/redis/redis.ts';
import { ActiveClock } from '../support/active-clock.ts';
import { freePort } from '../support/free-port.ts';
import { newFolder } from '../support/gateway.ts';
import { startRedis, type TestRedis } from '../support/redis.ts';
import { waitUntil } from '../support/wait-until.ts';

const testMs = 120_000;
/** Timeout for servers that answer. On a busy machine, they may be slow. */
const longTimeoutMs = 10_000;
/** Timeout for servers that don't answer. */
const shortTimeoutMs = 1_000;
let server: TestRedis | undefined;
beforeAll(async () => {
  server = await startRedis();
}, testMs);
afterAll(() => server?.kill());
beforeEach(async () => {
  await server?.command('FLUSHALL');
});

/** Connects a client and records the events of its watcher. */
async function connect(
  url: string,
  timeoutMs = longTimeoutMs,
): Promise<{ redis: Redis; events: string[] }> {
  const events: string[] = [];
  const watcher = {
    onUnreachable: () => events.push('unreachable'),
    onReconnected: () => events.push('reconnected'),
  };
  const redis = await Redis.open(url, watcher, countScripts, 'here', timeoutMs);
  return { redis, events };
}

/** Connects a client and records why the server was unreachable. */
async function connectForReasons(url: string): Promise<{ redis: Redis; reasons: string[] }> {
  const reasons: string[] = [];
  const watcher = {
    onUnreachable: (reason: string) => reasons.push(reason),
    onReconnected: () => {},
  };
  const redis = await Redis.open(url, watcher, countScripts, 'here', longTimeoutMs);
  return { redis, reasons };
}

/** Starts a node of a cluster with these slots. */
async function startNode(...slots: [string, string]) {
  const busPort = String(freePort());
  const nodes = ['--cluster-config-file', join(newFolder(), 'nodes.conf')];
  const node = await startRedis(['--cluster-enabled', 'yes', '--cluster-port', busPort, ...nodes]);
  await node?.command('CLUSTER', 'ADDSLOTSRANGE', ...slots);
  return node && Object.assign(node, { busPort });
}

const double = new Script('return tonumber(ARGV[1]) * 2');

/** Runs a test with its own server, which may be killed. Skips it if Redis isn't installed. */
const withServer = (runTest: (own: TestRedis) => Promise<void>) => async () => {
  await using own = await startRedis();
  if (own) await runTest(own);
};

describe('the Redis client', () => {
  test('stores bytes unchanged, with an expiry', async () => {
    if (!server) return;
    const { redis } = await connect(server.url);
    const bytes = Uint8Array.from([0, 255, 13, 10, 128]);
    expect(await redis.get('a')).toBeNull();
    expect(await redis.set('a', bytes, 60_000)).toBe('OK');
    expect(new Uint8Array((await redis.get('a')) ?? [])).toEqual(bytes);
    const left = Number(await server.command('PTTL', 'tollgate:here:a'));
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(60_000);
    redis.close();
  });

  test('sends the text of a script that the server has not cached', async () => {
    if (!server) return;
    const { redis, events } = await connect(server.url);
    expect(await redis.run(double, [], [21])).toBe(42);
    await server.command('SCRIPT', 'FLUSH');
    expect(await redis.run(double, [], [4])).toBe(8);
    expect(events).toEqual([]);
    redis.close();
  });

  test(
    'does not time out because its own machine was suspended',
    withServer(async (own) => {
      const { redis } = await connect(own.url, shortTimeoutMs);
      own.pause();
      const answer = redis.get('a');
      Bun.sleepSync(2 * shortTimeoutMs);
      await Bun.sleep(shortTimeoutMs / 4);
      own.resume();
      expect(await answer).toBeNull();
      redis.close();
    }),
    testMs,
  );

  // These tests are concurrent, because each one only waits for its own server.
  test.concurrent(
    'returns undefined while the server is down, and reconnects by itself',
    withServer(async (own) => {
      const { redis, events } = await connect(own.url);
      const pending = redis.run(new Script("return redis.call('BLPOP', 'a', 0)"), [], []);
      await own.kill();
      await waitUntil(() => !redis.isUp);
      await pending;
      expect(await redis.get('a')).toBeUndefined();
      expect(await redis.run(double, [], [1])).toBeUndefined();
      await own.start();
      await waitUntil(() => redis.isUp);
      expect(await redis.run(double, [], [1])).toBe(2);
      expect(events).toEqual(['unreachable', 'reconnected']);
      redis.close();
    }),
    testMs,
  );

  test.concurrent(
    'marks a frozen server as down after a few commands, and as up once it answers again',
    withServer(async (own) => {
      const { redis, events } = await connect(own.url, shortTimeoutMs);
      own.pause();
      const answers = await Promise.all(Array.from({ length: 50 }, () => redis.get('a')));
      expect(answers.every((answer) => answer === undefined)).toBe(true);
      expect(redis.isUp).toBe(false);
      expect(events).toEqual(['unreachable']);
      own.resume();
      await waitUntil(() => redis.isUp);
      expect(await redis.get('a')).toBeNull();
      redis.close();
    }),
    testMs,
  );

  test.concurrent(
    'has a default timeout below 1 second',
    withServer(async (own) => {
      const watcher = { onUnreachable() {}, onReconnected() {} };
      const redis = await Redis.open(own.url, watcher, countScripts, 'here');
      await waitUntil(() => redis.isUp);
      own.pause();
      using activeClock = new ActiveClock();
      expect(await redis.get('a')).toBeUndefined();
      expect(activeClock.ms).toBeLessThan(1_000);
      redis.close();
    }),
    testMs,
  );

  test.concurrent(
    'tolerates one late answer',
    withServer(async (own) => {
      const { redis, events } = await connect(own.url, shortTimeoutMs);
      own.pause();
      expect(await redis.get('a')).toBeUndefined();
      own.resume();
      expect(await redis.get('a')).toBeNull();
      expect(events).toEqual([]);
      redis.close();
    }),
    testMs,
  );

  test.concurrent(
    'starts without a server and connects once it is up',
    withServer(async (own) => {
      await own.kill();
      const { redis, events } = await connect(own.url);
      expect(redis.isUp).toBe(false);
      await own.start();
      await waitUntil(() => redis.isUp);
      expect(events).toEqual(['unreachable', 'reconnected']);
      redis.close();
    }),
    testMs,
  );

  test.concurrent(
    'marks a server without free memory as down until it has memory again',
    withServer(async (own) => {
      const { redis, events } = await connect(own.url);
      await own.command('CONFIG', 'SET', 'maxmemory', '1');
      await redis.set('a', new Uint8Array(1), 60_000);
      expect(redis.isUp).toBe(false);
      // Long enough for a few checks. A full server can read but not count, so it is still down.
      await Bun.sleep(1_500);
      expect(events).toEqual(['unreachable']);
      await own.command('CONFIG', 'SET', 'maxmemory', '0');
      await waitUntil(() => redis.isUp);
      expect(events).toEqual(['unreachable', 'reconnected']);
      redis.close();
    }),
    testMs,
  );

  test.concurrent(
    'reports why a replica, a restricted user, or a wrong password is rejected',
    withServer(async (own) => {
      await own.command('ACL', 'SETUSER', 'other', 'on', '>p', '~other:*', '+@all');
      await own.command('ACL', 'SETUSER', 'ours', 'on', '>p', '~tollgate:*', '+@all');
      const as = (login: string) => own.url.replace('//', `//${login}@`);
      const other = await connectForReasons(as('other:p'));
      expect(other.reasons).toEqual([expect.stringMatching(/^NOPERM /)]);
      const ours = await connectForReasons(as('ours:p'));
      expect(ours.redis.isUp).toBe(true);
      const wrongPassword = await connectForReasons(as('ours:wrong'));
      expect(wrongPassword.reasons).toEqual([
        'The connection was closed. Check the address, the password, and TLS (rediss://).',
      ]);
      await own.command('REPLICAOF', '127.0.0.1', '1');
      const replica = await connectForReasons(own.url);
      expect(replica.reasons).toEqual(["READONLY You can't write against a read only replica."]);
      for (const { redis } of [other, ours, wrongPassword, replica]) redis.close();
    }),
    testMs,
  );

  test.concurrent(
    'rejects a server that forbids a required command',
    withServer(async (own) => {
      for (const command of ['evalsha', 'zadd', 'zremrangebyscore', 'set']) {
        await own.command('ACL', 'SETUSER', 'default', '+@all', `-${command}`);
        const { redis, reasons } = await connectForReasons(own.url);
        expect(redis.isUp).toBe(false);
        expect(reasons).toEqual([expect.stringMatching(/^(?:NOPERM|ERR) [^\n]+$/)]);
        redis.close();
      }
      await own.command('ACL', 'SETUSER', 'default', '+@all');
      const { redis } = await connectForReasons(own.url);
      expect(redis.isUp).toBe(true);
      redis.close();
    }),
    testMs,
  );

  test.concurrent(
    'reports that some keys belong to other nodes of a cluster',
    async () => {
      const [one, other] = [await startNode('0', '8191'), await startNode('8192', '16383')];
      if (!one || !other) return;
      await one.command('CLUSTER', 'MEET', '127.0.0.1', new URL(other.url).port, other.busPort);
      const isComplete = async () => `${await one.command('CLUSTER', 'INFO')}`.includes('_size:2');
      await waitUntil(isComplete, { everyMs: 50 });
      const { redis, reasons } = await connectForReasons(one.url);
      expect(reasons).toEqual([expect.stringMatching(/^MOVED: this is one node of a cluster/)]);
      redis.close();
      await Promise.all([one.kill(), other.kill()]);
    },
    testMs,
  );

  test.concurrent(
    'backs off if every command fails on a reachable server',
    withServer(async (own) => {
      await own.command('ACL', 'SETUSER', 'default', 'resetkeys', '~tollgate:here:trial:*');
      const { redis, events } = await connect(own.url);
      const endsAt = performance.now() + 6_000;
      while (performance.now() < endsAt) {
        expect(await redis.get('a')).toBeUndefined();
        await Bun.sleep(10);
      }
      // It reconnects after 0.5, 1, 2, and 4 seconds. Without backoff, it would do so 12 times.
      expect(events.filter((event) => event === 'reconnected').length).toBeLessThanOrEqual(4);
      expect(events.filter((event) => event === 'reconnected').length).toBeGreaterThanOrEqual(1);
      redis.close();
    }),
    testMs,
  );
});

describe('RedisCounts', () => {
  const one = { tenantId: 'acme', keyId: 'key_1' };
  const two = { tenantId: 'acme', keyId: 'key_2' };
  const fresh = { window: -1, requests: 0, tokens: 0, tenantRequests: 0 };
  const limits = (requests: number, tokens: number | null = null) => {
    return { requests, tokens, tenantRequests: null };
  };

  /** Connects a client for each process. */
  async function counters(processes: number) {
    if (!server) return undefined;
    const { url } = server;
    const clients = await Promise.all(Array.from({ length: processes }, () => connect(url)));
    return {
      counts: clients.map(({ redis }) => new RedisCounts(redis)),
      close: () => clients.forEach(({ redis }) => void redis.close()),
    };
  }

  /** Waits for the next minute if the current one ends soon. */
  async function earlyInTheMinute(): Promise<void> {
    const leftMs = 60_000 - (Date.now() % 60_000);
    if (leftMs < 5_000) await Bun.sleep(leftMs + 50);
  }

  test(
    'admits exactly as many requests as the limit, each with its own number',
    async () => {
      const group = await counters(3);
      if (!group) return;
      await earlyInTheMinute();
      const takes = Array.from({ length: 300 }, (_, i) =>
        group.counts[i % 3]?.take(one, limits(100), fresh),
      );
      const allowed = (await Promise.all(takes)).filter((take) => take?.allowed);
      const numbers = allowed.map((take) => take?.requests ?? 0).sort((a, b) => a - b);
      expect(numbers).toEqual(Array.from({ length: 100 }, (_, i) => i + 1));
      group.close();
    },
    testMs,
  );

  test(
    'counts per key, without rejected requests',
    async () => {
      const group = await counters(1);
      const [counts] = group?.counts ?? [];
      if (!group || !counts) return;
      await earlyInTheMinute();
      for (let i = 0; i < 5; i++) await counts.take(one, limits(2), fresh);
      expect(await counts.take(one, limits(3), fresh)).toMatchObject({ allowed: true });
      expect(await counts.take(two, limits(1), fresh)).toMatchObject({ allowed: true });
      group.close();
    },
    testMs,
  );

  test(
    "counts the requests of a tenant's keys together, and continues from a known count",
    async () => {
      const group = await counters(2);
      const [here, there] = group?.counts ?? [];
      if (!server || !group || !here || !there) return;
      await earlyInTheMinute();
      const shared = { ...limits(3), tenantRequests: 4 };
      const takes = [one, two, two, one, two].map((key, i) =>
        (i % 2 === 0 ? here : there).take(key, shared, fresh),
      );
      const numbers = (await Promise.all(takes)).map((take) => take?.tenantRequests ?? 0);
      expect(numbers.sort()).toEqual([1, 2, 3, 4, 4]);
      // Either key may have had the rejected request, because each client has its own connection.
      const lasts = [await here.take(one, shared, fresh), await there.take(two, shared, fresh)];
      const rejected = { allowed: false, tenantRequests: 4 };
      expect(lasts).toMatchObject([rejected, rejected]);
      expect(lasts.map((take) => take?.requests ?? 0).reduce((a, b) => a + b)).toBe(4);
      // A key of a tenant without a limit isn't counted for the tenant.
      expect(await here.take(one, limits(3), fresh)).toMatchObject({ tenantRequests: 0 });
      await server.command('FLUSHALL');
      const known = { ...fresh, window: lasts[0]?.window ?? 0, tenantRequests: 3 };
      const take = await there.take(one, shared, known);
      expect(take).toMatchObject({ allowed: true, requests: 1, tenantRequests: 4 });
      group.close();
    },
    testMs,
  );

  test(
    'rejects requests once all tokens are used',
    async () => {
      const group = await counters(2);
      const [here, there] = group?.counts ?? [];
      if (!group || !here || !there) return;
      await earlyInTheMinute();
      expect(await here.take(one, limits(9, 100), fresh)).toMatchObject({
        allowed: true,
      });
      expect(await here.addTokens(one, 99)).toMatchObject({ requests: 1, tokens: 99 });
      expect(await there.take(one, limits(9, 100), fresh)).toMatchObject({
        allowed: true,
      });
      await there.addTokens(one, 1);
      expect(await here.take(one, limits(9, 100), fresh)).toMatchObject({
        allowed: false,
        requests: 2,
        tokens: 100,
      });
      group.close();
    },
    testMs,
  );

  test(
    'continues from the counts that a process knows after the server lost its data',
    async () => {
      const group = await counters(1);
      const [counts] = group?.counts ?? [];
      if (!server || !group || !counts) return;
      await earlyInTheMinute();
      const last = await counts.take(one, limits(10), fresh);
      expect(last).toMatchObject({ requests: 1 });
      await server.command('FLUSHALL');
      const known = { window: last?.window ?? 0, requests: 9, tokens: 0, tenantRequests: 0 };
      expect(await counts.take(one, limits(10), known)).toMatchObject({ requests: 10 });
      expect(await counts.take(one, limits(10), known)).toMatchObject({
        allowed: false,
      });
      const older = {
        window: (last?.window ?? 0) - 1,
        requests: 500,
        tokens: 0,
        tenantRequests: 0,
      };
      await server.command('FLUSHALL');
      expect(await counts.take(one, limits(10), older)).toMatchObject({ requests: 1 });
      group.close();
    },
    testMs,
  );

  test(
    'stays in the later window if the clock is set back',
    async () => {
      const group = await counters(1);
      const [counts] = group?.counts ?? [];
      if (!server || !group || !counts) return;
      const later = Math.floor(Date.now() / 60_000) + 2;
      const name = 'tollgate:here:{acme}:rate:key_1';
      await server.command(
        ...(['HSET', name, 'window', String(later), 'requests', '7', 'tokens', '0'] as const),
      );
      expect(await counts.take(one, limits(10), fresh)).toMatchObject({
        window: later,
        requests: 8,
      });
      group.close();
    },
    testMs,
  );

  test(
    'uses the current minute if a clock was an hour ahead',
    async () => {
      const group = await counters(1);
      const [counts] = group?.counts ?? [];
      if (!server || !group || !counts) return;
      await earlyInTheMinute();
      const minute = Math.floor(Date.now() / 60_000);
      const name = 'tollgate:here:{acme}:rate:key_1';
      await server.command(
        ...(['HSET', name, 'window', String(minute + 60), 'requests', '7', 'tokens', '0'] as const),
      );
      expect(await counts.take(one, limits(10), fresh)).toMatchObject({
        window: minute,
        requests: 8,
      });
      // The count expires after the minute, like all counts.
      expect(Number(await server.command('PTTL', name))).toBeWithin(1, 120_001);
      group.close();
    },
    testMs,
  );
});

describe('concurrency slots in Redis', () => {
  const name = 'tollgate:here:{acme}:running';

  async function counts(): Promise<RedisCounts | undefined> {
    return server && new RedisCounts((await connect(server.url)).redis);
  }

  test('are limited, and a released slot is free again', async () => {
    const slots = await counts();
    if (!slots) return;
    const enter = async (slot: string, ...released: string[]) =>
      (await slots.acquire('acme', slot, 2, released))?.isFree;
    expect([await enter('a:1'), await enter('b:1'), await enter('a:2')]).toEqual([
      true,
      true,
      false,
    ]);
    expect(await slots.acquire('other', 'a:3', 2, [])).toEqual({ isFree: true, running: 1 });
    void slots.release('acme', ['b:1']);
    expect(await enter('a:2')).toBe(true);
    expect(await enter('a:4', 'a:1', 'a:2')).toBe(true);
    expect(await slots.acquire('acme', 'a:5', 9, [])).toEqual({ isFree: true, running: 2 });
  });

  test('expire if their process stops renewing them', async () => {
    const slots = await counts();
    if (!server || !slots) return;
    const before = Date.now();
    await slots.acquire('acme', 'dead:1', 1, []);
    const after = Date.now() + 1;
    expect(await slots.acquire('acme', 'a:1', 1, [])).toEqual({ isFree: false, running: 1 });
    const endsAt = Number(await server.command('ZSCORE', name, 'dead:1'));
    expect(endsAt).toBeWithin(before + slotTtlMs, after + slotTtlMs);
    // Set an expiry in the past instead of waiting.
    await server.command('ZADD', name, String(Date.now() - 1), 'dead:1');
    expect(await slots.acquire('acme', 'a:1', 1, [])).toEqual({ isFree: true, running: 1 });
  });

  test('with an expiry too far in the future are free', async () => {
    const slots = await counts();
    if (!server || !slots) return;
    await server.command('ZADD', name, String(Date.now() + 3_600_000), 'dead:1', 'inf', 'odd');
    expect(await slots.acquire('acme', 'a:1', 1, [])).toEqual({ isFree: true, running: 1 });
    // If the clock is set back a little, the slots of running requests are still occupied.
    await server.command('ZADD', name, String(Date.now() + slotTtlMs + 5_000), 'a:1');
    expect(await slots.acquire('acme', 'a:2', 1, [])).toEqual({ isFree: false, running: 1 });
  });

  test('are renewed, and restored if the server lost them', async () => {
    const slots = await counts();
    if (!server || !slots) return;
    await slots.acquire('acme', 'a:1', 3, []);
    await server.command('ZADD', name, '1', 'a:1');
    await slots.renew('acme', ['a:1', 'a:2']);
    expect(Number(await server.command('ZSCORE', name, 'a:1'))).toBeGreaterThan(Date.now());
    await server.command('FLUSHALL');
    await slots.renew('acme', ['a:1', 'a:2']);
    expect(await slots.acquire('acme', 'b:1', 2, [])).toMatchObject({ isFree: false });
    expect(await slots.acquire('acme', 'b:1', 3, [])).toMatchObject({ isFree: true });
  });
});
