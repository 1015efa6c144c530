/**
 * An answer that an idempotency key gives again was paid for, whenever its maker was killed. Most
 * of the time passes until a dead one's lease ends, so all of these wait at once.
 */
import { afterAll, expect, test } from 'bun:test';
import { openStore } from '../../src/store/open.ts';
import { discrepancies } from '../support/ledger-check.ts';
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
  headers,
  optionsFor,
  sharedStoreEnv,
  textOf,
} from '../support/idempotent-request.ts';
import { type OwnPostgres, startOwnPostgres, startPostgres } from '../support/postgres.ts';

const testMs = 240_000;
const upstreams: FakeUpstream[] = [];
afterAll(() => {
  for (const upstream of upstreams) upstream.stop();
});

/** One for each test: its book holds what this test has asked. */
function newUpstream(): FakeUpstream {
  const upstream = startFakeUpstream();
  upstream.script('chat', answer);
  upstreams.push(upstream);
  return upstream;
}

/**
 * The store has the answer, and the process is gone. Where the store was slow, its client has heard
 * the answer before: that is no less paid for.
 */
async function askInVain(gateway: Gateway, stream: boolean): Promise<void> {
  await gateway.chat({ ...body, stream }, { headers }).catch(() => undefined);
  await gateway.finished;
  expect(gateway.process.signalCode).toBe('SIGKILL');
}

const replayed = (answer: Answer) => [answer.status, answer.headers.get('idempotent-replayed')];

/** Given again, and charged by the one call that the upstream knows of. */
async function expectPaidOnce(gateway: Gateway, upstream: FakeUpstream): Promise<void> {
  expect(replayed(await gateway.chat(body, { headers }))).toEqual([200, 'true']);
  expect(upstream.requests).toHaveLength(1);
  expect(await gateway.balance()).toBe(credits - answerCost);
}

async function expectRightBooks(url: string): Promise<void> {
  const { database } = await openStore(url);
  const wrong = await discrepancies(database);
  await database.close();
  expect(wrong).toEqual([]);
}

test.concurrent.each([false, true])(
  'on SQLite: killed between its answer and its charge (streamed: %p)',
  async (stream) => {
    const upstream = newUpstream();
    const dying = await startCrashingOnSqlite(optionsFor(upstream));
    await askInVain(dying, stream);
    const next = await dying.another(optionsFor(upstream));
    await expectPaidOnce(next, upstream);
    await next.stop();
    await expectRightBooks(`sqlite:${next.dataDir}/tollgate.db`);
  },
  testMs,
);

test.concurrent.each([false, true])(
  'on Postgres: the same, and its machine comes back after another has answered (streamed: %p)',
  async (stream) => {
    const upstream = newUpstream();
    const url = await (await startPostgres()).createDatabase();
    const dying = await startCrashingOnPostgres(optionsFor(upstream, sharedStoreEnv(url)), url);
    await askInVain(dying, stream);
    const shared = { ...optionsFor(upstream, sharedStoreEnv(url)), keys: dying.keys };
    // It has nothing of the dead one's disk.
    const other = await startGateway(shared);
    await expectPaidOnce(other, upstream);
    const back = await dying.another(shared);
    await expectPaidOnce(back, upstream);
    await expectPaidOnce(other, upstream);
    await back.stop();
    await other.stop();
    await expectRightBooks(url);
  },
  testMs,
);

/** The store is away when the answer ends, and the gateway is killed before it is back. */
async function answerAndDie(
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
  'an answer that only its killed maker knew is not made and charged a second time',
  async () => {
    const upstream = newUpstream();
    const postgres = await startOwnPostgres({ durable: true });
    const gateway = await startGateway(optionsFor(upstream, sharedStoreEnv(postgres.url)));
    upstream.script('chat', gated('go', 0, answer));
    await answerAndDie(gateway, postgres, upstream);
    const next = await gateway.another();
    // It waits for the dead one's lease to end.
    const again = await next.chat(body, { headers });
    expect([again.status, again.error.message]).toEqual([409, expect.stringContaining('was lost')]);
    expect(upstream.requests).toHaveLength(1);
    expect(await next.balance()).toBe(credits - answerCost);
    await next.stop();
    await expectRightBooks(postgres.url);
    await postgres.stop();
  },
  testMs,
);

test.concurrent(
  'one whose machine comes back after another has answered and charged it is not charged too',
  async () => {
    const upstream = newUpstream();
    const postgres = await startOwnPostgres({ durable: true });
    const shared = optionsFor(upstream, sharedStoreEnv(postgres.url));
    const gateway = await startGateway(shared);
    upstream.script('chat', [gated('go', 0, answer), answer]);
    await answerAndDie(gateway, postgres, upstream);
    // It has nothing of the dead one's disk, and waits for its lease to end.
    const other = await startGateway({ ...shared, keys: gateway.keys });
    expect(replayed(await other.chat(body, { headers }))).toEqual([200, null]);
    const back = await gateway.another();
    expect(replayed(await back.chat(body, { headers }))).toEqual([200, 'true']);
    expect(upstream.requests).toHaveLength(2);
    expect(await back.balance()).toBe(credits - answerCost);
    await back.stop();
    await other.stop();
    await expectRightBooks(postgres.url);
    await postgres.stop();
  },
  testMs,
);

test.concurrent(
  'one killed in the middle of its answer: another makes it when the lease has ended',
  async () => {
    const upstream = newUpstream();
    const shared = sharedStoreEnv(await (await startPostgres()).createDatabase());
    const one = await startGateway(optionsFor(upstream, shared));
    const two = await startGateway({ ...optionsFor(upstream, shared), keys: one.keys });
    upstream.script('chat', [hangMidStream(2), answer]);
    const broken = one.chat(body, { headers }).catch(() => 'broken');
    await upstream.until((requests) => requests.length > 0);
    await one.kill9();
    expect(await broken).toBe('broken');
    const again = await two.chat(body, { headers });
    expect([again.status, textOf(again)]).toEqual([200, 'One two three']);
    expect(replayed(again)).toEqual([200, null]);
    expect(replayed(await two.chat(body, { headers }))).toEqual([200, 'true']);
    expect(upstream.requests).toHaveLength(2);
    expect(await two.balance()).toBe(credits - answerCost);
    await two.stop();
  },
  testMs,
);
