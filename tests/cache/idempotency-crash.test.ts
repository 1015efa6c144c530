/**
 * A replayed answer is charged exactly once, no matter when its process was killed. The tests
 * mostly wait for processes to start, so they run concurrently.
 */
import { afterAll, expect, test } from 'bun:test';
import { openStore } from '../../src/store/open.ts';
import { startCrashingOnPostgres, startCrashingOnSqlite } from '../support/crashing-gateway.ts';
import {
  type FakeUpstream,
  gated,
  hangMidStream,
  startFakeUpstream,
} from '../support/fake-upstream.ts';
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
import { discrepancies } from '../support/ledger-check.ts';
import { type OwnPostgres, startOwnPostgres, startPostgres } from '../support/postgres.ts';
import { within } from '../support/wait-until.ts';

const testMs = 240_000;
const upstreams: FakeUpstream[] = [];
afterAll(() => {
  for (const upstream of upstreams) upstream.stop();
});

/** Starts a fake provider per test, so that its log contains only the requests of this test. */
function newUpstream(): FakeUpstream {
  const upstream = startFakeUpstream();
  upstream.script('chat', answer);
  upstreams.push(upstream);
  return upstream;
}

/**
 * Sends a request to a process that is killed once the store has the answer. If the store is slow,
 * the client may already have received the answer. The charge is the same either way.
 */
async function sendUntilKilled(gateway: Gateway, stream: boolean): Promise<void> {
  await gateway.chat({ ...body, stream }, { headers }).catch(() => undefined);
  await within(gateway.finished, 'the gateway to be killed', 60_000);
  expect(gateway.process.signalCode).toBe('SIGKILL');
}

const replayed = (answer: Answer) => [answer.status, answer.headers.get('idempotent-replayed')];

/** Checks that the answer is replayed, and that only one provider call was made and charged. */
async function expectChargedOnce(gateway: Gateway, upstream: FakeUpstream): Promise<void> {
  expect(replayed(await gateway.chat(body, { headers }))).toEqual([200, 'true']);
  expect(upstream.requests).toHaveLength(1);
  expect(await gateway.balance()).toBe(credits - answerCost);
}

async function expectConsistentLedger(url: string): Promise<void> {
  const { database } = await openStore(url);
  const found = await discrepancies(database);
  await database.close();
  expect(found).toEqual([]);
}

test.concurrent.each([false, true])(
  'an answer is charged once after a crash before its charge, on SQLite (streamed: %p)',
  async (stream) => {
    const upstream = newUpstream();
    const killed = await startCrashingOnSqlite(optionsFor(upstream));
    await sendUntilKilled(killed, stream);
    const next = await killed.another(optionsFor(upstream));
    await expectChargedOnce(next, upstream);
    await next.stop();
    await expectConsistentLedger(`sqlite:${next.dataDir}/tollgate.db`);
  },
  testMs,
);

test.concurrent.each([false, true])(
  'an answer is charged once after a crash before its charge, on Postgres (streamed: %p)',
  async (stream) => {
    const upstream = newUpstream();
    const url = await (await startPostgres()).createDatabase();
    const killed = await startCrashingOnPostgres(optionsFor(upstream, sharedStoreEnv(url)), url);
    await sendUntilKilled(killed, stream);
    const shared = { ...optionsFor(upstream, sharedStoreEnv(url)), keys: killed.keys };
    // This process has no access to the killed one's disk.
    const other = await startGateway(shared);
    await expectChargedOnce(other, upstream);
    const restarted = await killed.another(shared);
    await expectChargedOnce(restarted, upstream);
    await expectChargedOnce(other, upstream);
    await restarted.stop();
    await other.stop();
    await expectConsistentLedger(url);
  },
  testMs,
);

/** Answers while Postgres is stopped, and kills the gateway before Postgres is back. */
async function answerDuringOutage(
  gateway: Gateway,
  postgres: OwnPostgres,
  upstream: FakeUpstream,
): Promise<void> {
  const first = gateway.chat(body, { headers });
  await upstream.until((requests) => requests.length > 0);
  await postgres.halt('immediate');
  upstream.open('go');
  expect((await first).status).toBe(200);
  await gateway.kill9();
  await postgres.start();
}

test.concurrent(
  'a repeated request gets a new answer for free if the charged one was lost in a crash',
  async () => {
    const upstream = newUpstream();
    const postgres = await startOwnPostgres({ durable: true });
    const gateway = await startGateway(optionsFor(upstream, sharedStoreEnv(postgres.url)));
    upstream.script('chat', [gated('go', 0, answer), answer]);
    await answerDuringOutage(gateway, postgres, upstream);
    const next = await gateway.another();
    await endLeases(postgres.url);
    const again = await next.chat(body, { headers });
    expect([again.status, textOf(again)]).toEqual([200, 'One two three']);
    expect(replayed(again)).toEqual([200, null]);
    expect(replayed(await next.chat(body, { headers }))).toEqual([200, 'true']);
    expect(upstream.requests).toHaveLength(2);
    expect(await next.balance()).toBe(credits - answerCost);
    await next.stop();
    await expectConsistentLedger(postgres.url);
    await postgres.stop();
  },
  testMs,
);

test.concurrent(
  'an answer is not charged again when its process restarts after another process has answered',
  async () => {
    const upstream = newUpstream();
    const postgres = await startOwnPostgres({ durable: true });
    const shared = optionsFor(upstream, sharedStoreEnv(postgres.url));
    const gateway = await startGateway(shared);
    upstream.script('chat', [gated('go', 0, answer), answer]);
    await answerDuringOutage(gateway, postgres, upstream);
    // This process has no access to the killed one's disk, so it waits until its lease ends.
    await endLeases(postgres.url);
    const other = await startGateway({ ...shared, keys: gateway.keys });
    expect(replayed(await other.chat(body, { headers }))).toEqual([200, null]);
    const restarted = await gateway.another();
    expect(replayed(await restarted.chat(body, { headers }))).toEqual([200, 'true']);
    expect(upstream.requests).toHaveLength(2);
    expect(await restarted.balance()).toBe(credits - answerCost);
    await restarted.stop();
    await other.stop();
    await expectConsistentLedger(postgres.url);
    await postgres.stop();
  },
  testMs,
);

test.concurrent(
  'a request whose process is killed while streaming is answered by another after the lease ends',
  async () => {
    const upstream = newUpstream();
    const url = await (await startPostgres()).createDatabase();
    const shared = sharedStoreEnv(url);
    const one = await startGateway(optionsFor(upstream, shared));
    const two = await startGateway({ ...optionsFor(upstream, shared), keys: one.keys });
    upstream.script('chat', [hangMidStream(2), answer]);
    const interrupted = one.chat(body, { headers }).catch(() => 'interrupted');
    await upstream.until((requests) => requests.length > 0);
    await one.kill9();
    expect(await interrupted).toBe('interrupted');
    const waiting = two.chat(body, { headers });
    await endLeases(url);
    const again = await waiting;
    expect([again.status, textOf(again)]).toEqual([200, 'One two three']);
    expect(replayed(again)).toEqual([200, null]);
    expect(replayed(await two.chat(body, { headers }))).toEqual([200, 'true']);
    expect(upstream.requests).toHaveLength(2);
    expect(await two.balance()).toBe(credits - answerCost);
    await two.stop();
  },
  testMs,
);
