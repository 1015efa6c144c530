/** Processes with the same Redis share cached answers, separately for each tenant. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { RedisCacheStore } from '../../src/store/redis/cache-store.ts';
import { Redis } from '../../src/store/redis/redis.ts';
import { chatAnswer, type FakeUpstream, startFakeUpstream } from '../support/fake-upstream.ts';
import {
  type Answer,
  type Gateway,
  type GatewayOptions,
  startGateway,
} from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';
import { longRedisTimeout, startRedis, type TestRedis } from '../support/redis.ts';
import { waitUntil } from '../support/wait-until.ts';

const testMs = 240_000;
let redis: TestRedis | undefined;
let upstream: FakeUpstream;
let one: Gateway;
let two: Gateway;
/** All processes except the first. */
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

const requestBody = (content: string, more: object = {}) => ({
  model: 'test/chat',
  temperature: 0,
  messages: [{ role: 'user', content }],
  ...more,
});
const cacheOf = ({ headers }: Answer) => headers.get('x-cache');

/** Waits until Redis has this many answers. A client can receive an answer before Redis does. */
async function untilStored(count: number): Promise<void> {
  await waitUntil(async () => {
    const keys = await redis?.command('KEYS', 'tollgate:*:answer:*');
    return Array.isArray(keys) && keys.length >= count;
  });
}

test(
  'an answer cached by one process is a hit in the others, but never for another tenant',
  async () => {
    if (!redis) return;
    upstream.script('chat', [chatAnswer('From one'), chatAnswer('For the other tenant')]);
    expect(cacheOf(await one.chat(requestBody('shared')))).toBe('MISS');
    await untilStored(1);
    for (const other of others) {
      const hit = await other.chat(requestBody('shared'));
      expect([cacheOf(hit), hit.text.includes('From one')]).toEqual(['HIT', true]);
    }
    const stream = await two.stream(requestBody('shared'));
    expect([await stream.read(), stream.response.headers.get('x-cache')]).toEqual([
      'From one',
      'HIT',
    ]);
    expect(upstream.requests).toHaveLength(1);

    await one.admin('POST', '/admin/v1/tenants', { id: 'other', name: 'Other' });
    await one.admin('POST', '/admin/v1/tenants/other/credits', { amount: 1_000_000 });
    const created = await one.admin('POST', '/admin/v1/tenants/other/keys', { name: 'app' });
    const key = String(isObject(created.body) ? created.body.key : '');
    const otherReply = await two.chat(requestBody('shared'), { key });
    expect([cacheOf(otherReply), otherReply.text.includes('For the other tenant')]).toEqual([
      'MISS',
      true,
    ]);
    // Both answers are stored, and every process serves each tenant its own.
    await untilStored(2);
    for (const gateway of [one, ...others]) {
      const [ownReply, otherReplyAgain] = [
        await gateway.chat(requestBody('shared')),
        await gateway.chat(requestBody('shared'), { key }),
      ];
      expect([cacheOf(ownReply), ownReply.text.includes('From one')]).toEqual(['HIT', true]);
      expect([
        cacheOf(otherReplyAgain),
        otherReplyAgain.text.includes('For the other tenant'),
      ]).toEqual(['HIT', true]);
    }
  },
  testMs,
);

test(
  'an unreachable Redis acts as an empty cache and is used again when it is back',
  async () => {
    if (!redis) return;
    upstream.script('chat', chatAnswer('Still here'));
    await redis.kill();
    for (const gateway of [one, two]) {
      const reply = await gateway.chat(requestBody('without'));
      expect([reply.status, cacheOf(reply)]).toEqual([200, 'MISS']);
    }
    await redis.start();
    for (const gateway of [one, two]) await gateway.untilLogged('redis_recovered');
    await one.chat(requestBody('again'));
    await untilStored(1);
    expect(cacheOf(await two.chat(requestBody('again')))).toBe('HIT');
  },
  testMs,
);

test(
  'another deployment on the same Redis has separate answers',
  async () => {
    if (!redis) return;
    await redis.command('FLUSHALL');
    upstream.script('chat', [chatAnswer('From here'), chatAnswer('From there')]);
    await using otherDeployment = await startGateway({
      upstreams: { fake: { url: upstream.url, models: { 'test/chat': {} } } },
      env: { REDIS_URL: redis.url, ...longRedisTimeout },
    });
    await one.chat(requestBody('whose'));
    await untilStored(1);
    // The same tenant ID, model, and question.
    const otherReply = await otherDeployment.chat(requestBody('whose'));
    expect([cacheOf(otherReply), otherReply.text.includes('From there')]).toEqual(['MISS', true]);
    await untilStored(2);
    expect((await two.chat(requestBody('whose'))).text).toContain('From here');
  },
  testMs,
);

test('an answer with an invalid dialect or format in Redis is ignored', async () => {
  if (!redis) return;
  upstream.script('chat', chatAnswer('From here'));
  await redis.command('FLUSHALL');
  for (const dialect of ['openai', 'gemini', 'none', 'constructor']) {
    await one.chat(requestBody('forged'));
    await untilStored(1);
    const [key] = (await redis.command('KEYS', 'tollgate:*:answer:*')) as string[];
    const form = { form: 'reply', text: '{}', model: 'a/b', provider: 'p', recordedAt: Date.now() };
    const forged = JSON.stringify({ ...form, dialect });
    await redis.command('SET', String(key), forged);
    const reply = await two.chat(requestBody('forged'));
    expect([reply.status, cacheOf(reply)]).toEqual([200, 'MISS']);
    // The new answer replaces the forged one. Wait for that, so it can't happen in the next round.
    await waitUntil(async () => (await redis?.command('GET', String(key))) !== forged);
    await redis.command('FLUSHALL');
  }
});

test('RedisCacheStore ignores values that are not recordings', async () => {
  if (!redis) return;
  const watcher = { onUnreachable() {}, onReconnected() {} };
  const client = await Redis.open(redis.url, watcher, [], 'here', 10_000);
  const store = new RedisCacheStore(client);
  const good = { dialect: 'openai', form: 'reply', text: '{}', model: 'a/b', provider: 'p' };
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
    expect(await store.find('bad')).toBeUndefined();
  }
  await redis.command(
    'SET',
    'tollgate:here:answer:bad',
    JSON.stringify({ ...good, recordedAt: 1 }),
  );
  expect(await store.find('bad')).toMatchObject({ text: '{}' });
  client.close();
});
