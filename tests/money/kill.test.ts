/**
 * Kills the gateway 30 times under load, each time at a different moment, and restarts it on the
 * same data. At the end, the charges must match what the clients and the upstream recorded.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { join } from 'node:path';
import { openStore } from '../../src/store/open.ts';
import {
  chatAnswer,
  type FakeUpstreamProcess,
  type LoggedRequest,
  startFakeUpstreamProcess,
  words,
} from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { balanceOf, discrepancies } from '../support/ledger-check.ts';
import {
  credits,
  expectedCharge,
  price,
  requestsByUser,
} from '../support/money/expected-charges.ts';
import { Traffic } from '../support/money/traffic.ts';
import { seed } from '../support/random.ts';

const kills = 30;
/** The maximum number of completed answers to wait for between startup and the next kill. */
const completedMax = 40;
/** The time limit for one start and one kill. */
const roundMs = 120_000;

interface Row {
  readonly user: string | null;
  readonly charge: number;
  readonly status: string;
  readonly note: string | null;
  readonly requestId: string;
}

const traffic = new Traffic();
let upstream: FakeUpstreamProcess;
let gateway: Gateway;
let sent: ReadonlyMap<string, LoggedRequest> = new Map();
let rows: readonly Row[] = [];
let verification = { exitCode: -1, stdout: '' };
let problems: readonly string[] = [];
let balance = 0;

beforeAll(async () => {
  process.stderr.write(`kill.test.ts: TOLLGATE_TEST_SEED=${seed}\n`);
  upstream = await startFakeUpstreamProcess();
  await upstream.script('chat', chatAnswer(words(20), { chunkDelayMs: 4 }));
  await upstream.script('plain', chatAnswer(words(7)));
  gateway = await startGateway({
    upstreams: {
      fake: { url: upstream.url, models: { 'test/chat': price, 'test/plain': price } },
    },
    config: { limits: { requests_per_minute: 1_000_000, concurrent_requests: 10_000 } },
    env: { TOLLGATE_BOOTSTRAP_CREDITS: String(credits) },
  });
}, roundMs);

afterAll(() => upstream.stop());

/** Returns a number from 0 to 1 that is derived from the seed. */
function randomOf(name: string): number {
  return Number(BigInt.asUintN(32, Bun.hash.wyhash(`${seed} ${name}`))) / 2 ** 32;
}

test.each(Array.from({ length: kills }, (_, kill) => kill))(
  'restarts after kill %d',
  async (kill) => {
    const running = traffic.send(gateway, 10, 'test/chat', 'test/plain');
    // Wait for answers, not only for time, so that a slow machine gets as far as a fast one.
    await traffic.untilMore(Math.floor(randomOf(`${kill} ends`) * completedMax));
    await Bun.sleep(20 + randomOf(`${kill} ms`) * 50);
    await gateway.kill9();
    await running;
    gateway = await gateway.another();
  },
  roundMs,
);

test(
  'shuts down, and the ledger can be read',
  async () => {
    await gateway.stop();
    verification = await gateway.command('ledger', 'verify');
    await upstream.until((entries) => entries.every(({ finishedAt }) => finishedAt !== null));
    sent = await requestsByUser(upstream);
    const { database } = await openStore(`sqlite:${join(gateway.dataDir, 'tollgate.db')}`);
    const logged = await database.read.selectFrom('request_log').selectAll().execute();
    rows = logged.map((row) => ({
      user: JSON.parse(row.details).user,
      charge: row.model_charge,
      status: row.status,
      note: JSON.parse(row.details).note ?? null,
      requestId: Buffer.from(row.request_id).toString('hex'),
    }));
    problems = await discrepancies(database);
    balance = await balanceOf(database, 'tenant:default');
    await database.close();
  },
  roundMs,
);

test('answers were in progress at the kills', () => {
  expect(traffic.ends.length).toBeGreaterThan(kills);
  const interrupted = [...sent.values()].filter(({ outcome }) => outcome !== 'complete');
  expect(interrupted.length).toBeGreaterThan(kills);
});

test('charges every completed request once, according to the tokens that the upstream sent', () => {
  const rowsById = Map.groupBy(rows, (row) => row.requestId);
  const wrongly = traffic.ends.flatMap(({ user, requestId }) => {
    const found = rowsById.get(requestId.replaceAll('-', '')) ?? [];
    const entry = sent.get(user);
    const bill = entry ? expectedCharge(entry) : undefined;
    const isRight = found.length === 1 && found[0]?.user === user && found[0]?.charge === bill;
    return isRight ? [] : [{ user, bill, found }];
  });
  expect(wrongly).toEqual([]);
});

test('charges no request twice, and none that was not sent', () => {
  const charged = rows.filter(({ charge }) => charge > 0);
  const users = charged.map(({ user }) => user ?? '');
  expect(new Set(users).size).toBe(users.length);
  const wrongly = charged.filter(({ user, charge }) => {
    const entry = sent.get(user ?? '');
    return !entry || expectedCharge(entry) !== charge;
  });
  expect(wrongly).toEqual([]);
});

test('logs interrupted requests as errors and does not charge them', () => {
  const failed = rows.filter(({ status }) => status === 'error');
  expect(failed.length).toBeGreaterThan(kills);
  for (const { charge, note } of failed) {
    expect({ charge, note }).toEqual({
      charge: 0,
      note: 'The gateway stopped before this request ended.',
    });
  }
  // Every call that reached the upstream is logged.
  expect(rows.length).toBeGreaterThanOrEqual(sent.size);
});

test('the ledger is consistent, and the balance is the grants minus the charges', () => {
  expect(verification).toMatchObject({ exitCode: 0 });
  expect(problems).toEqual([]);
  expect(balance).toBe(credits - rows.reduce((sum, { charge }) => sum + charge, 0));
});
