/** The client and the shared counts against a real server that is killed, frozen and emptied. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { slotTtlMs } from '../../src/core/bounds.ts';
import { countScripts, RedisCounts } from '../../src/store/redis/counts.ts';
import { Redis, Script } from '../../src/store/redis/redis.ts';
import { ActiveClock } from '../support/active-clock.ts';
import { freePort } from '../support/free-port.ts';
import { newFolder } from '../support/gateway.ts';
import { startRedis, type TestRedis } from '../support/redis.ts';

const testMs = 120_000;
/** For servers that answer; they may be slow to do so where much else is tested. */
const patientMs = 10_000;
/** For servers that do not. */
const impatientMs = 1_000;
let server: TestRedis | undefined;
beforeAll(async () => {
  server = await startRedis();
}, testMs);
afterAll(() => server?.kill());
beforeEach(async () => {
  await server?.command('FLUSHALL');
});

/** A client, and what its watcher was told. */
async function connect(
  url: string,
  patienceMs = patientMs,
): Promise<{ redis: Redis; told: string[] }> {
  const told: string[] = [];
  const watcher = { onAway: () => told.push('away'), onBack: () => told.push('back') };
  const redis = await Redis.open(url, watcher, countScripts, 'here', patienceMs);
  return { redis, told };
}

/** A client, and why it went. */
async function reasonsAt(url: string): Promise<{ redis: Redis; reasons: string[] }> {
  const reasons: string[] = [];
  const watcher = { onAway: (reason: string) => reasons.push(reason), onBack: () => {} };
  const redis = await Redis.open(url, watcher, countScripts, 'here', patientMs);
  return { redis, reasons };
}

/** A node of a cluster that has these slots. */
async function startNode(...slots: [string, string]) {
  const busPort = String(freePort());
  const nodes = ['--cluster-config-file', join(newFolder(), 'nodes.conf')];
  const node = await startRedis(['--cluster-enabled', 'yes', '--cluster-port', busPort, ...nodes]);
  await node?.command('CLUSTER', 'ADDSLOTSRANGE', ...slots);
  return node && Object.assign(node, { busPort });
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await Bun.sleep(5);
}

const double = new Script('return tonumber(ARGV[1]) * 2');

/** Runs with a server of its own, which may be killed; does nothing where none is installed. */
const withServer = (work: (own: TestRedis) => Promise<void>) => async () => {
  await using own = await startRedis();
  if (own) await work(own);
};

describe('the client', () => {
  test('keeps bytes as they are, for their time', async () => {
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

  test('sends a script’s text to a server that does not know it, or forgot it', async () => {
    if (!server) return;
    const { redis, told } = await connect(server.url);
    expect(await redis.run(double, [], [21])).toBe(42);
    await server.command('SCRIPT', 'FLUSH');
    expect(await redis.run(double, [], [4])).toBe(8);
    expect(told).toEqual([]);
    redis.close();
  });

  test(
    'holds no time against the server in which its own machine stood still',
    withServer(async (own) => {
      const { redis } = await connect(own.url, impatientMs);
      own.pause();
      const answer = redis.get('a');
      Bun.sleepSync(2 * impatientMs);
      await Bun.sleep(impatientMs / 4);
      own.resume();
      expect(await answer).toBeNull();
      redis.close();
    }),
    testMs,
  );

  // Each has a server of its own, and waits for it.
  test.concurrent(
    'answers nothing while the server is dead, and finds it again by itself',
    withServer(async (own) => {
      const { redis, told } = await connect(own.url);
      const waiting = redis.run(new Script("return redis.call('BLPOP', 'a', 0)"), [], []);
      await own.kill();
      await until(() => !redis.isUp);
      await waiting;
      expect(await redis.get('a')).toBeUndefined();
      expect(await redis.run(double, [], [1])).toBeUndefined();
      await own.start();
      await until(() => redis.isUp);
      expect(await redis.run(double, [], [1])).toBe(2);
      expect(told).toEqual(['away', 'back']);
      redis.close();
    }),
    testMs,
  );

  test.concurrent(
    'gives a frozen server up after a few commands, and takes it back when it thaws',
    withServer(async (own) => {
      const { redis, told } = await connect(own.url, impatientMs);
      own.pause();
      const answers = await Promise.all(Array.from({ length: 50 }, () => redis.get('a')));
      expect(answers.every((answer) => answer === undefined)).toBe(true);
      expect(redis.isUp).toBe(false);
      expect(told).toEqual(['away']);
      own.resume();
      await until(() => redis.isUp);
      expect(await redis.get('a')).toBeNull();
      redis.close();
    }),
    testMs,
  );

  test.concurrent(
    'keeps a request waiting for a moment only, unless it is told otherwise',
    withServer(async (own) => {
      const watcher = { onAway() {}, onBack() {} };
      const redis = await Redis.open(own.url, watcher, countScripts, 'here');
      await until(() => redis.isUp);
      own.pause();
      using activeClock = new ActiveClock();
      expect(await redis.get('a')).toBeUndefined();
      expect(activeClock.ms).toBeLessThan(1_000);
      redis.close();
    }),
    testMs,
  );

  test.concurrent(
    'lets one late answer pass without giving the server up',
    withServer(async (own) => {
      const { redis, told } = await connect(own.url, impatientMs);
      own.pause();
      expect(await redis.get('a')).toBeUndefined();
      own.resume();
      expect(await redis.get('a')).toBeNull();
      expect(told).toEqual([]);
      redis.close();
    }),
    testMs,
  );

  test.concurrent(
    'begins without a server and has it once it is there',
    withServer(async (own) => {
      await own.kill();
      const { redis, told } = await connect(own.url);
      expect(redis.isUp).toBe(false);
      await own.start();
      await until(() => redis.isUp);
      expect(told).toEqual(['away', 'back']);
      redis.close();
    }),
    testMs,
  );

  test.concurrent(
    'leaves a full server once, although it still reads, and comes back when there is room',
    withServer(async (own) => {
      const { redis, told } = await connect(own.url);
      await own.command('CONFIG', 'SET', 'maxmemory', '1');
      await redis.set('a', new Uint8Array(1), 60_000);
      expect(redis.isUp).toBe(false);
      // Long enough for a few looks: a server that reads and cannot count is still away.
      await Bun.sleep(1_500);
      expect(told).toEqual(['away']);
      await own.command('CONFIG', 'SET', 'maxmemory', '0');
      await until(() => redis.isUp);
      expect(told).toEqual(['away', 'back']);
      redis.close();
    }),
    testMs,
  );

  test.concurrent(
    'says what a replica and a limited user refuse, and of a closed door what to look at',
    withServer(async (own) => {
      await own.command('ACL', 'SETUSER', 'other', 'on', '>p', '~other:*', '+@all');
      await own.command('ACL', 'SETUSER', 'ours', 'on', '>p', '~tollgate:*', '+@all');
      const as = (login: string) => own.url.replace('//', `//${login}@`);
      const other = await reasonsAt(as('other:p'));
      expect(other.reasons).toEqual([expect.stringMatching(/^NOPERM /)]);
      const ours = await reasonsAt(as('ours:p'));
      expect(ours.redis.isUp).toBe(true);
      const stranger = await reasonsAt(as('ours:wrong'));
      expect(stranger.reasons).toEqual([
        'The connection was closed. Check the address, the password, and TLS (rediss://).',
      ]);
      await own.command('REPLICAOF', '127.0.0.1', '1');
      const replica = await reasonsAt(own.url);
      expect(replica.reasons).toEqual(["READONLY You can't write against a read only replica."]);
      for (const { redis } of [other, ours, stranger, replica]) redis.close();
    }),
    testMs,
  );

  test.concurrent(
    'trusts no server that refuses one of the commands it will need',
    withServer(async (own) => {
      for (const command of ['evalsha', 'zadd', 'zremrangebyscore', 'set']) {
        await own.command('ACL', 'SETUSER', 'default', '+@all', `-${command}`);
        const { redis, reasons } = await reasonsAt(own.url);
        expect(redis.isUp).toBe(false);
        expect(reasons).toEqual([expect.stringMatching(/^(?:NOPERM|ERR) [^\n]+$/)]);
        redis.close();
      }
      await own.command('ACL', 'SETUSER', 'default', '+@all');
      const { redis } = await reasonsAt(own.url);
      expect(redis.isUp).toBe(true);
      redis.close();
    }),
    testMs,
  );

  test.concurrent(
    'says of one node of a cluster that others have a part of the keys',
    async () => {
      const [one, other] = [await startNode('0', '8191'), await startNode('8192', '16383')];
      if (!one || !other) return;
      await one.command('CLUSTER', 'MEET', '127.0.0.1', new URL(other.url).port, other.busPort);
      const isWhole = async () => `${await one.command('CLUSTER', 'INFO')}`.includes('_size:2');
      while (!(await isWhole())) await Bun.sleep(50);
      const { redis, reasons } = await reasonsAt(one.url);
      expect(reasons).toEqual([expect.stringMatching(/^MOVED: .* other nodes [^\n]+\.$/)]);
      redis.close();
      await Promise.all([one.kill(), other.kill()]);
    },
    testMs,
  );

  test.concurrent(
    'tries less and less often where every command fails on a server that is there',
    withServer(async (own) => {
      await own.command('ACL', 'SETUSER', 'default', 'resetkeys', '~tollgate:here:trial:*');
      const { redis, told } = await connect(own.url);
      const until = performance.now() + 6_000;
      while (performance.now() < until) {
        expect(await redis.get('a')).toBeUndefined();
        await Bun.sleep(10);
      }
      // After 0.5, 1, 2 and 4 seconds; every half second it would have been twelve times.
      expect(told.filter((what) => what === 'back').length).toBeLessThanOrEqual(4);
      expect(told.filter((what) => what === 'back').length).toBeGreaterThanOrEqual(1);
      redis.close();
    }),
    testMs,
  );
});

describe('shared counts', () => {
  const fresh = { window: -1, requests: 0, tokens: 0 };
  const limits = (requests: number, tokens: number | null = null) => ({ requests, tokens });

  /** As many clients as there would be processes. */
  async function counters(processes: number) {
    if (!server) return undefined;
    const { url } = server;
    const clients = await Promise.all(Array.from({ length: processes }, () => connect(url)));
    return {
      counts: clients.map(({ redis }) => new RedisCounts(redis)),
      close: () => clients.forEach(({ redis }) => void redis.close()),
    };
  }

  /** Windows start with the minute; a test that counts must not see one end. */
  async function earlyInTheMinute(): Promise<void> {
    const leftMs = 60_000 - (Date.now() % 60_000);
    if (leftMs < 15_000) await Bun.sleep(leftMs + 50);
  }

  test(
    'let exactly the limit through, each with a number of its own',
    async () => {
      const together = await counters(3);
      if (!together) return;
      await earlyInTheMinute();
      const takes = Array.from({ length: 300 }, (_, i) =>
        together.counts[i % 3]?.take('acme', 'key_1', limits(100), fresh),
      );
      const allowed = (await Promise.all(takes)).filter((take) => take?.allowed);
      const numbers = allowed.map((take) => take?.requests ?? 0).sort((a, b) => a - b);
      expect(numbers).toEqual(Array.from({ length: 100 }, (_, i) => i + 1));
      together.close();
    },
    testMs,
  );

  test(
    'belong to one key, and a refused request costs nothing',
    async () => {
      const together = await counters(1);
      const [counts] = together?.counts ?? [];
      if (!together || !counts) return;
      await earlyInTheMinute();
      for (let i = 0; i < 5; i++) await counts.take('acme', 'key_1', limits(2), fresh);
      expect(await counts.take('acme', 'key_1', limits(3), fresh)).toMatchObject({ allowed: true });
      expect(await counts.take('acme', 'key_2', limits(1), fresh)).toMatchObject({ allowed: true });
      together.close();
    },
    testMs,
  );

  test(
    'of tokens refuse what comes after the last one',
    async () => {
      const together = await counters(2);
      const [here, there] = together?.counts ?? [];
      if (!together || !here || !there) return;
      await earlyInTheMinute();
      expect(await here.take('acme', 'key_1', limits(9, 100), fresh)).toMatchObject({
        allowed: true,
      });
      expect(await here.addTokens('acme', 'key_1', 99)).toMatchObject({ requests: 1, tokens: 99 });
      expect(await there.take('acme', 'key_1', limits(9, 100), fresh)).toMatchObject({
        allowed: true,
      });
      await there.addTokens('acme', 'key_1', 1);
      expect(await here.take('acme', 'key_1', limits(9, 100), fresh)).toMatchObject({
        allowed: false,
        requests: 2,
        tokens: 100,
      });
      together.close();
    },
    testMs,
  );

  test(
    'go on from what a process remembers when the server has forgotten',
    async () => {
      const together = await counters(1);
      const [counts] = together?.counts ?? [];
      if (!server || !together || !counts) return;
      await earlyInTheMinute();
      const last = await counts.take('acme', 'key_1', limits(10), fresh);
      expect(last).toMatchObject({ requests: 1 });
      await server.command('FLUSHALL');
      const known = { window: last?.window ?? 0, requests: 9, tokens: 0 };
      expect(await counts.take('acme', 'key_1', limits(10), known)).toMatchObject({ requests: 10 });
      expect(await counts.take('acme', 'key_1', limits(10), known)).toMatchObject({
        allowed: false,
      });
      const older = { window: (last?.window ?? 0) - 1, requests: 500, tokens: 0 };
      await server.command('FLUSHALL');
      expect(await counts.take('acme', 'key_1', limits(10), older)).toMatchObject({ requests: 1 });
      together.close();
    },
    testMs,
  );

  test(
    'of a clock that steps back stay in the later window',
    async () => {
      const together = await counters(1);
      const [counts] = together?.counts ?? [];
      if (!server || !together || !counts) return;
      const later = Math.floor(Date.now() / 60_000) + 2;
      const name = 'tollgate:here:{acme}:rate:key_1';
      await server.command(
        ...(['HSET', name, 'window', String(later), 'requests', '7', 'tokens', '0'] as const),
      );
      expect(await counts.take('acme', 'key_1', limits(10), fresh)).toMatchObject({
        window: later,
        requests: 8,
      });
      together.close();
    },
    testMs,
  );

  test(
    'of a clock that was an hour ahead are those of the minute it is',
    async () => {
      const together = await counters(1);
      const [counts] = together?.counts ?? [];
      if (!server || !together || !counts) return;
      await earlyInTheMinute();
      const minute = Math.floor(Date.now() / 60_000);
      const name = 'tollgate:here:{acme}:rate:key_1';
      await server.command(
        ...(['HSET', name, 'window', String(minute + 60), 'requests', '7', 'tokens', '0'] as const),
      );
      expect(await counts.take('acme', 'key_1', limits(10), fresh)).toMatchObject({
        window: minute,
        requests: 8,
      });
      // Forgotten after the minute, as any other.
      expect(Number(await server.command('PTTL', name))).toBeWithin(1, 120_001);
      together.close();
    },
    testMs,
  );
});

describe('shared places', () => {
  const name = 'tollgate:here:{acme}:running';

  async function counts(): Promise<RedisCounts | undefined> {
    return server && new RedisCounts((await connect(server.url)).redis);
  }

  test('are as many as the limit, and one that was left is free', async () => {
    const places = await counts();
    if (!places) return;
    const enter = async (place: string, ...left: string[]) =>
      (await places.enter('acme', place, 2, left))?.isFree;
    expect([await enter('a:1'), await enter('b:1'), await enter('a:2')]).toEqual([
      true,
      true,
      false,
    ]);
    expect(await places.enter('other', 'a:3', 2, [])).toEqual({ isFree: true, running: 1 });
    void places.leave('acme', ['b:1']);
    expect(await enter('a:2')).toBe(true);
    expect(await enter('a:4', 'a:1', 'a:2')).toBe(true);
    expect(await places.enter('acme', 'a:5', 9, [])).toEqual({ isFree: true, running: 2 });
  });

  test('of a process that renews them no more are free again', async () => {
    const places = await counts();
    if (!server || !places) return;
    const before = Date.now();
    await places.enter('acme', 'dead:1', 1, []);
    const after = Date.now() + 1;
    expect(await places.enter('acme', 'a:1', 1, [])).toEqual({ isFree: false, running: 1 });
    const endsAt = Number(await server.command('ZSCORE', name, 'dead:1'));
    expect(endsAt).toBeWithin(before + slotTtlMs, after + slotTtlMs);
    // As if that time had passed.
    await server.command('ZADD', name, String(Date.now() - 1), 'dead:1');
    expect(await places.enter('acme', 'a:1', 1, [])).toEqual({ isFree: true, running: 1 });
  });

  test('that a clock hours ahead has left, or somebody else, are free again', async () => {
    const places = await counts();
    if (!server || !places) return;
    await server.command('ZADD', name, String(Date.now() + 3_600_000), 'dead:1', 'inf', 'odd');
    expect(await places.enter('acme', 'a:1', 1, [])).toEqual({ isFree: true, running: 1 });
    // One that has stepped back by less finds those of running requests where they were.
    await server.command('ZADD', name, String(Date.now() + slotTtlMs + 5_000), 'a:1');
    expect(await places.enter('acme', 'a:2', 1, [])).toEqual({ isFree: false, running: 1 });
  });

  test('are renewed, and told again to a server that has forgotten them', async () => {
    const places = await counts();
    if (!server || !places) return;
    await places.enter('acme', 'a:1', 3, []);
    await server.command('ZADD', name, '1', 'a:1');
    await places.renew('acme', ['a:1', 'a:2']);
    expect(Number(await server.command('ZSCORE', name, 'a:1'))).toBeGreaterThan(Date.now());
    await server.command('FLUSHALL');
    await places.renew('acme', ['a:1', 'a:2']);
    expect(await places.enter('acme', 'b:1', 2, [])).toMatchObject({ isFree: false });
    expect(await places.enter('acme', 'b:1', 3, [])).toMatchObject({ isFree: true });
  });
});
