/**
 * The gateway is killed thirty times under load, each time at another moment, and started again on
 * the same data. Clients and upstream keep books of their own; in the end all three must agree.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { join } from 'node:path';
import { openStore } from '../../src/store/open.ts';
import { balanceOf, discrepancies } from '../support/ledger-check.ts';
import {
  type LoggedRequest,
  type FakeUpstreamProcess,
  chatAnswer,
  startFakeUpstreamProcess,
  words,
} from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { billOf, credits, price, sentTo } from '../support/money/bills.ts';
import { Traffic } from '../support/money/traffic.ts';

const kills = 30;
/** How many answers may have been seen between a start and its kill. */
const endsMax = 40;
/** For one start, one kill and what lies between. */
const turnMs = 120_000;
const seed = Number(crypto.getRandomValues(new Uint32Array(1))[0]);

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
let verdict = { exitCode: -1, stdout: '' };
let wrong: readonly string[] = [];
let balance = 0;

beforeAll(async () => {
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
}, turnMs);

afterAll(() => upstream.stop());

/** From 0 to 1, the same for the same seed: it is named in what a failure shows. */
function randomOf(turn: string): number {
  return Number(BigInt.asUintN(32, Bun.hash.wyhash(`${seed} ${turn}`))) / 2 ** 32;
}

test.each(Array.from({ length: kills }, (_, kill) => kill))(
  'it starts again after kill %d',
  async (kill) => {
    const running = traffic.send(gateway, 10, 'test/chat', 'test/plain');
    // By what was done and not by the clock alone: a slow machine gets as far as a fast one.
    await traffic.untilMore(Math.floor(randomOf(`${kill} ends`) * endsMax));
    await Bun.sleep(20 + randomOf(`${kill} ms`) * 50);
    await gateway.kill9();
    await running;
    gateway = await gateway.another();
  },
  turnMs,
);

test(
  'it stops, and its books can be read',
  async () => {
    await gateway.stop();
    verdict = await gateway.command('ledger', 'verify');
    await upstream.until((entries) => entries.every(({ finishedAt }) => finishedAt !== null));
    sent = await sentTo(upstream);
    const { database } = await openStore(`sqlite:${join(gateway.dataDir, 'tollgate.db')}`);
    const logged = await database.read.selectFrom('request_log').selectAll().execute();
    rows = logged.map((row) => ({
      user: JSON.parse(row.details).user,
      charge: row.model_charge,
      status: row.status,
      note: JSON.parse(row.details).note ?? null,
      requestId: Buffer.from(row.request_id).toString('hex'),
    }));
    wrong = await discrepancies(database);
    balance = await balanceOf(database, 'tenant:default');
    await database.close();
  },
  turnMs,
);

test('there was something to lose at every kill', () => {
  expect(traffic.ends.length).toBeGreaterThan(kills);
  const cutOff = [...sent.values()].filter(({ outcome }) => outcome !== 'complete');
  expect(cutOff.length).toBeGreaterThan(kills);
});

test('every request whose end a client saw is charged once, by the upstream’s own book', () => {
  const rowsById = Map.groupBy(rows, (row) => row.requestId);
  const wrongly = traffic.ends.flatMap(({ user, requestId }) => {
    const found = rowsById.get(requestId.replaceAll('-', '')) ?? [];
    const entry = sent.get(user);
    const bill = entry ? billOf(entry) : undefined;
    const isRight = found.length === 1 && found[0]?.user === user && found[0]?.charge === bill;
    return isRight ? [] : [{ seed, user, bill, found }];
  });
  expect(wrongly).toEqual([]);
});

test('nothing is charged that was not sent, and nothing twice', () => {
  const charged = rows.filter(({ charge }) => charge > 0);
  const users = charged.map(({ user }) => user ?? '');
  expect(new Set(users).size).toBe(users.length);
  const wrongly = charged.filter(({ user, charge }) => {
    const entry = sent.get(user ?? '');
    return !entry || billOf(entry) !== charge;
  });
  expect({ seed, wrongly }).toEqual({ seed, wrongly: [] });
});

test('what was under way is in the log as an error that costs nothing and says why', () => {
  const died = rows.filter(({ status }) => status === 'error');
  expect(died.length).toBeGreaterThan(kills);
  for (const { charge, note } of died) {
    expect({ charge, note }).toEqual({
      charge: 0,
      note: 'The gateway stopped before this request ended.',
    });
  }
  // No call that reached the upstream goes unrecorded.
  expect(rows.length).toBeGreaterThanOrEqual(sent.size);
});

test('the books verify, and the balance is what was granted less what was charged', () => {
  expect(verdict).toMatchObject({ exitCode: 0 });
  expect(wrong).toEqual([]);
  expect(balance).toBe(credits - rows.reduce((sum, { charge }) => sum + charge, 0));
});
