/** Idempotency keys survive restarts and are shared between processes. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { type FakeUpstream, gated, startFakeUpstream } from '../support/fake-upstream.ts';
import { type Answer, type Gateway, startGateway } from '../support/gateway.ts';
import {
  answer,
  answerCost,
  body,
  credits,
  endLeases,
  headers,
  optionsFor,
  sharedStoreEnv,
  textOf,
} from '../support/idempotent-request.ts';
import { startOwnPostgres, startPostgres } from '../support/postgres.ts';
import { waitUntil } from '../support/wait-until.ts';

const testMs = 240_000;
let upstream: FakeUpstream;

beforeAll(() => {
  upstream = startFakeUpstream();
});
afterAll(() => upstream.stop());
beforeEach(() => upstream.reset());

const conflict = 'This Idempotency-Key is being answered by another process now.';

const replayed = (reply: Answer) => reply.headers.get('idempotent-replayed');

test(
  'an idempotency key returns the first answer after a restart',
  async () => {
    upstream.script('chat', answer);
    const gateway = await startGateway(optionsFor(upstream));
    const first = await gateway.chat(body, { headers });
    await gateway.stop();
    await using later = await gateway.another();
    const again = await later.chat(body, { headers });
    expect([textOf(first), textOf(again)]).toEqual(['One two three', 'One two three']);
    expect([replayed(first), replayed(again)]).toEqual([null, 'true']);
    const stream = await later.stream(body, { headers });
    expect(await stream.read()).toBe('One two three');
    const other = await later.chat({ ...body, seed: 1 }, { headers });
    expect(other.status).toBe(409);
    expect(await later.balance()).toBe(credits - answerCost);
    expect(upstream.requests).toHaveLength(1);
  },
  testMs,
);

test(
  'a request that was charged is answered again for free if its answer is lost',
  async () => {
    const postgres = await startOwnPostgres({ durable: true });
    // The charge leaves less than a new hold needs.
    const granted = answerCost + 10;
    const env = { ...sharedStoreEnv(postgres.url), TOLLGATE_BOOTSTRAP_CREDITS: String(granted) };
    const gateway = await startGateway(optionsFor(upstream, env));
    upstream.script('chat', gated('go', 0, answer));
    const first = gateway.chat(body, { headers });
    await upstream.until((requests) => requests.length > 0);
    await postgres.halt('immediate');
    upstream.open('go');
    expect(textOf(await first)).toBe('One two three');
    // The charge is in the journal, but the answer was only in memory.
    await gateway.kill9();
    await postgres.start();
    await using later = await gateway.another();
    expect(await later.balance()).toBe(10);
    const { status, error } = await later.chat(body);
    expect([status, error.type]).toEqual([402, 'insufficient_credits']);
    upstream.script('chat', answer);
    const again = await later.chat(body, { headers });
    expect([again.status, textOf(again), replayed(again)]).toEqual([200, 'One two three', null]);
    expect(again.body.usage).toMatchObject({ cost: 0 });
    expect(replayed(await later.chat(body, { headers }))).toBe('true');
    expect(await later.balance()).toBe(10);
    expect(upstream.requests).toHaveLength(2);
    await later.stop();
  },
  testMs,
);

test(
  'an answer during a database outage is sent, charged once, and replayed later',
  async () => {
    const postgres = await startOwnPostgres({ durable: true });
    const shared = sharedStoreEnv(postgres.url);
    const gateway = await startGateway(optionsFor(upstream, shared));
    upstream.script('chat', gated('go', 0, answer));
    const first = gateway.chat(body, { headers });
    await upstream.until((requests) => requests.length > 0);
    await postgres.halt('immediate');
    upstream.open('go');
    expect(textOf(await first)).toBe('One two three');
    const unknown = await gateway.chat(body, { headers: { 'idempotency-key': 'another' } });
    expect([unknown.status, unknown.headers.get('retry-after')]).toEqual([503, '2']);
    await postgres.start();
    const retry = async () => {
      const answer = await gateway.chat(body, { headers });
      return answer.status !== 503 && answer;
    };
    // The pool needs a moment to reconnect. The key allows 600 requests per minute.
    const again = await waitUntil(retry, { everyMs: 50 });
    expect([textOf(again), replayed(again)]).toEqual(['One two three', 'true']);
    await gateway.stop();
    await using later = await gateway.another();
    expect(replayed(await later.chat(body, { headers }))).toBe('true');
    expect(upstream.requests).toHaveLength(1);
    expect(await later.balance()).toBe(credits - answerCost);
    await later.stop();
    await postgres.stop();
  },
  testMs,
);

describe('2 processes on one Postgres', () => {
  let one: Gateway;
  let two: Gateway;
  let database: string;

  beforeAll(async () => {
    database = await (await startPostgres()).createDatabase();
    const shared = sharedStoreEnv(database);
    one = await startGateway(optionsFor(upstream, shared));
    two = await startGateway({ ...optionsFor(upstream, shared), keys: one.keys });
  }, testMs);
  afterAll(async () => {
    await Promise.all([one?.stop(), two?.stop()]);
  }, testMs);

  test(
    "replay each other's answers, including one that is still running",
    async () => {
      upstream.script('chat', gated('go', 0, answer));
      const before = await one.balance();
      const first = one.chat(body, { headers });
      await upstream.until((requests) => requests.length > 0);
      const waiting = [two.chat(body, { headers }), one.chat(body, { headers })];
      const different = await two.chat({ ...body, seed: 1 }, { headers });
      expect(different.status).toBe(409);
      upstream.open('go');
      const ended = await Promise.all([first, ...waiting]);
      expect(ended.map(textOf)).toEqual(Array(3).fill('One two three'));
      expect(ended.map(replayed)).toEqual([null, 'true', 'true']);
      expect(replayed(await two.chat(body, { headers }))).toBe('true');
      expect(upstream.requests).toHaveLength(1);
      expect(before - (await one.balance())).toBe(answerCost);
    },
    testMs,
  );

  test.each([false, true])(
    'charge only one answer if the process that sent the other was suspended beyond its lease (streamed: %p)',
    async (stream) => {
      upstream.script('chat', [gated('go', 0, answer), answer]);
      const ownHeaders = { 'idempotency-key': `order-9-${stream}` };
      const before = await two.balance();
      const late = one.chat({ ...body, stream }, { headers: ownHeaders });
      await upstream.until((requests) => requests.length > 0);
      one.process.kill('SIGSTOP');
      await endLeases(database);
      const second = await two.chat(body, { headers: ownHeaders });
      expect([second.status, replayed(second)]).toEqual([200, null]);
      one.process.kill('SIGCONT');
      upstream.open('go');
      const { status, text } = await late;
      expect([status, text]).toEqual([stream ? 200 : 409, expect.stringContaining(conflict)]);
      expect(replayed(await one.chat(body, { headers: ownHeaders }))).toBe('true');
      await one.call('GET', '/v1/customer/logs', { key: one.keys.api });
      expect(before - (await two.balance())).toBe(answerCost);
    },
    testMs,
  );
});
