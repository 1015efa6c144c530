/** Processes that share a Redis share the answers they remember, each tenant its own. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { RedisCacheStore } from '../../src/store/redis/cache-store.ts';
import { Redis } from '../../src/store/redis/redis.ts';
import { type FakeUpstream, chatAnswer, startFakeUpstream } from '../support/fake-upstream.ts';
import {
  type Answer,
  type Gateway,
  type GatewayOptions,
  startGateway,
} from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';
import { longRedisTimeout, startRedis, type TestRedis } from '../support/redis.ts';

const testMs = 240_000;
let redis: TestRedis | undefined;
let upstream: FakeUpstream;
let one: Gateway;
let two: Gateway;
/** All but the first. */
let others: readonly Gateway[];

beforeAll(async () => {
  redis = await startRedis();
  if (!redis) return;
  upstream = startFakeUpstream();
  const options: GatewayOptions = {
    upstreams: { fake: { url: upstream.url, models: { 'test/chat': {} } } },
    env: {
      DATABASE_URL: await (await startPostgres()).createDatabase(),
      REDIS_URL: redis.url,
      ...longRedisTimeout,
      TOLLGATE_SECRET_KEY: 'the same secret on all of the machines',
    },
  };
  one = await startGateway(options);
  const again = { ...options, keys: one.keys };
  two = await startGateway(again);
  others = [two, await startGateway(again), await startGateway(again)];
}, testMs);
afterAll(async () => {
  if (!redis) return;
  await Promise.all([one, ...others].map((gateway) => gateway.stop()));
  upstream.stop();
  await redis.kill();
}, testMs);

const ask = (content: string, more: object = {}) => ({
  model: 'test/chat',
  temperature: 0,
  messages: [{ role: 'user', content }],
  ...more,
});
const cacheOf = ({ headers }: Answer) => headers.get('x-cache');

/** Redis is written to while the answer goes out. */
async function untilKept(count: number): Promise<void> {
  for (;;) {
    const keys = await redis?.command('KEYS', 'tollgate:*:answer:*');
    if (Array.isArray(keys) && keys.length >= count) return;
    await Bun.sleep(5);
  }
}

test(
  'an answer made by one of four is a HIT on the others, and never for another tenant',
  async () => {
    if (!redis) return;
    upstream.script('chat', [chatAnswer('Made by one'), chatAnswer('For the stranger')]);
    expect(cacheOf(await one.chat(ask('shared')))).toBe('MISS');
    await untilKept(1);
    for (const other of others) {
      const hit = await other.chat(ask('shared'));
      expect([cacheOf(hit), hit.text.includes('Made by one')]).toEqual(['HIT', true]);
    }
    const stream = await two.stream(ask('shared'));
    expect([await stream.read(), stream.response.headers.get('x-cache')]).toEqual([
      'Made by one',
      'HIT',
    ]);
    expect(upstream.requests).toHaveLength(1);

    await one.admin('POST', '/admin/v1/tenants', { id: 'stranger', name: 'Stranger' });
    await one.admin('POST', '/admin/v1/tenants/stranger/credits', { amount: 1_000_000 });
    const made = await one.admin('POST', '/admin/v1/tenants/stranger/keys', { name: 'app' });
    const key = String(isObject(made.body) ? made.body.key : '');
    const theirs = await two.chat(ask('shared'), { key });
    expect([cacheOf(theirs), theirs.text.includes('For the stranger')]).toEqual(['MISS', true]);
    // Theirs is kept beside ours, and on every process each tenant gets its own.
    await untilKept(2);
    for (const gateway of [one, ...others]) {
      const [ours, stranger] = [
        await gateway.chat(ask('shared')),
        await gateway.chat(ask('shared'), { key }),
      ];
      expect([cacheOf(ours), ours.text.includes('Made by one')]).toEqual(['HIT', true]);
      expect([cacheOf(stranger), stranger.text.includes('For the stranger')]).toEqual([
        'HIT',
        true,
      ]);
    }
  },
  testMs,
);

test(
  'a Redis that dies is an empty cache and no error, and is found again',
  async () => {
    if (!redis) return;
    upstream.script('chat', chatAnswer('Still here'));
    await redis.kill();
    for (const gateway of [one, two]) {
      const reply = await gateway.chat(ask('without'));
      expect([reply.status, cacheOf(reply)]).toEqual([200, 'MISS']);
    }
    await redis.start();
    for (const gateway of [one, two]) await gateway.untilLogged('redis_back');
    await one.chat(ask('again'));
    await untilKept(1);
    expect(cacheOf(await two.chat(ask('again')))).toBe('HIT');
  },
  testMs,
);

test(
  'another deployment on the same Redis has answers and counts of its own',
  async () => {
    if (!redis) return;
    await redis.command('FLUSHALL');
    upstream.script('chat', [chatAnswer('Made here'), chatAnswer('Made there')]);
    await using stranger = await startGateway({
      upstreams: { fake: { url: upstream.url, models: { 'test/chat': {} } } },
      env: { REDIS_URL: redis.url, ...longRedisTimeout },
    });
    await one.chat(ask('whose'));
    await untilKept(1);
    // The same tenant id, model and question.
    const theirs = await stranger.chat(ask('whose'));
    expect([cacheOf(theirs), theirs.text.includes('Made there')]).toEqual(['MISS', true]);
    await untilKept(2);
    expect((await two.chat(ask('whose'))).text).toContain('Made here');
  },
  testMs,
);

test('an answer that somebody else wrote into Redis is not given', async () => {
  if (!redis) return;
  upstream.script('chat', chatAnswer('Made here'));
  await redis.command('FLUSHALL');
  for (const dialect of ['openai', 'gemini', 'none', 'constructor']) {
    await one.chat(ask('forged'));
    await untilKept(1);
    const [key] = (await redis.command('KEYS', 'tollgate:*:answer:*')) as string[];
    const form = { form: 'whole', text: '{}', model: 'a/b', provider: 'p', recordedAt: Date.now() };
    const forged = JSON.stringify({ ...form, dialect });
    await redis.command('SET', String(key), forged);
    const reply = await two.chat(ask('forged'));
    expect([reply.status, cacheOf(reply)]).toEqual([200, 'MISS']);
    // The answer made instead takes its place, or it would take that of the next one.
    while ((await redis.command('GET', String(key))) === forged) await Bun.sleep(5);
    await redis.command('FLUSHALL');
  }
});

test('what is no recording at all is not read as one', async () => {
  if (!redis) return;
  const watcher = { onAway() {}, onBack() {} };
  const client = await Redis.open(redis.url, watcher, [], 'here', 10_000);
  const shelf = new RedisCacheStore(client);
  const good = { dialect: 'openai', form: 'whole', text: '{}', model: 'a/b', provider: 'p' };
  const values: unknown[] = [
    'no JSON',
    [],
    null,
    { ...good, recordedAt: 'yesterday' },
    { ...good, recordedAt: 1, form: 'both' },
    { ...good, recordedAt: 1, text: 5 },
  ];
  for (const value of values) {
    const text = value === 'no JSON' ? value : JSON.stringify(value);
    await redis.command('SET', 'tollgate:here:answer:bad', String(text));
    expect(await shelf.find('bad')).toBeUndefined();
  }
  await redis.command(
    'SET',
    'tollgate:here:answer:bad',
    JSON.stringify({ ...good, recordedAt: 1 }),
  );
  expect(await shelf.find('bad')).toMatchObject({ text: '{}' });
  client.close();
});
