/**
 * Postgres goes away under load and comes back. Requests go on within the lease already taken, and
 * in the end the books hold every one of them once.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import pg from 'pg';
import { openStore } from '../../src/store/open.ts';
import { chargesById, discrepancies } from '../support/ledger-check.ts';
import {
  type FakeUpstreamProcess,
  chatAnswer,
  startFakeUpstreamProcess,
  words,
} from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { credits, expectBooks, price } from '../support/money/bills.ts';
import { Traffic } from '../support/money/traffic.ts';
import { type OwnPostgres, startOwnPostgres } from '../support/postgres.ts';

const testMs = 120_000;
/** The promise is twenty seconds; the suite has less patience unless it is told otherwise. */
const awayMs = Number(process.env.TEST_OUTAGE_MS ?? 8_000);

interface Rig {
  readonly upstream: FakeUpstreamProcess;
  readonly postgres: OwnPostgres;
}

/** Two, so that the long absences pass at the same time. */
let one: Rig;
let other: Rig;

async function startRig(): Promise<Rig> {
  const upstream = await startFakeUpstreamProcess();
  await upstream.script('chat', chatAnswer(words(20), { chunkDelayMs: 20 }));
  await upstream.script('plain', chatAnswer(words(7), { chunkDelayMs: 0 }));
  return { upstream, postgres: await startOwnPostgres({ durable: true }) };
}

beforeAll(async () => {
  one = await startRig();
  other = await startRig();
}, testMs);
afterAll(async () => {
  for (const { upstream, postgres } of [one, other]) {
    await postgres.stop();
    await upstream.stop();
  }
}, testMs);

interface Seen {
  readonly statuses: ReadonlySet<number>;
  readonly traffic: Traffic;
}

/** Load before, during and after; `away` and `back` are what happens to the server. */
async function loadThrough(
  upstream: FakeUpstreamProcess,
  DATABASE_URL: string,
  away: () => Promise<void> | void,
  back: () => Promise<void> | void,
): Promise<Seen> {
  const gateway = await startGateway({
    upstreams: {
      fake: { url: upstream.url, models: { 'test/chat': price, 'test/plain': price } },
    },
    config: { limits: { requests_per_minute: 1_000_000, concurrent_requests: 10_000 } },
    env: { TOLLGATE_BOOTSTRAP_CREDITS: String(credits), DATABASE_URL },
  });
  const traffic = new Traffic();
  const sending = traffic.send(gateway, 4, 'test/chat', 'test/plain');
  await traffic.untilMore(20);
  await away();
  const served = traffic.untilMore(20);
  const statuses = await askReadiness(gateway, awayMs);
  await served;
  await back();
  await untilReady(gateway);
  await traffic.untilMore(20);
  traffic.stop();
  await sending;
  await gateway.stop();
  return { statuses, traffic };
}

async function askReadiness(gateway: Gateway, forMs: number): Promise<ReadonlySet<number>> {
  const statuses = new Set<number>();
  const until = performance.now() + forMs;
  while (performance.now() < until) {
    const left = AbortSignal.timeout(Math.max(1, until - performance.now()));
    const status = await gateway.request('GET', '/readyz', { signal: left }).then(
      (answer) => answer.status,
      (failure: unknown) => {
        if (!left.aborted) throw failure;
      },
    );
    // Cut short by our own end, it has not answered.
    if (status !== undefined) statuses.add(status);
    expect((await gateway.call('GET', '/healthz')).status).toBe(200);
    await Bun.sleep(200);
  }
  return statuses;
}

async function untilReady(gateway: Gateway): Promise<void> {
  while ((await gateway.call('GET', '/readyz')).status !== 200) await Bun.sleep(50);
}

async function expectAllBooked(
  upstream: FakeUpstreamProcess,
  url: string,
  traffic: Traffic,
): Promise<void> {
  const { booked, sent } = await expectBooks(url, upstream, traffic);
  expect(booked).toBe(sent);
}

test.concurrent(
  'a Postgres that is stopped and started again fails no request and loses no charge',
  async () => {
    const { upstream, postgres } = one;
    const url = await postgres.createDatabase();
    const { statuses, traffic } = await loadThrough(
      upstream,
      url,
      () => postgres.halt('immediate'),
      () => postgres.start(),
    );
    expect([...statuses]).toEqual([503]);
    expect(traffic.refusals).toEqual([]);
    expect(traffic.broken).toEqual([]);
    await expectAllBooked(upstream, url, traffic);
  },
  testMs,
);

test.concurrent(
  'a Postgres that freezes and wakes up neither',
  async () => {
    const { upstream, postgres } = other;
    const url = await postgres.createDatabase();
    const { statuses, traffic } = await loadThrough(
      upstream,
      url,
      () => postgres.pause(),
      () => postgres.resume(),
    );
    expect(statuses.has(200)).toBe(false);
    expect(traffic.refusals).toEqual([]);
    expect(traffic.broken).toEqual([]);
    await expectAllBooked(upstream, url, traffic);
  },
  testMs,
);

test(
  'a Postgres that only reads, as after a failover, is not ready until it takes changes again',
  async () => {
    const { postgres } = one;
    const DATABASE_URL = await postgres.createDatabase();
    await using gateway = await startGateway({ env: { DATABASE_URL } });
    const readOnly = async (value: 'on' | 'off') => {
      await tell(postgres.url, `alter system set default_transaction_read_only = ${value}`);
      await tell(postgres.url, 'select pg_reload_conf()');
    };
    const ready = () => gateway.call('GET', '/readyz');
    expect((await ready()).status).toBe(200);
    await readOnly('on');
    // Each session of the server takes its new settings in its own time.
    let answer = await ready();
    while (answer.status === 200) {
      await Bun.sleep(20);
      answer = await ready();
    }
    expect(answer.body.reason).toMatch(/^The store is unavailable: Postgres at \S+ is read-only: /);
    await readOnly('off');
    await untilReady(gateway);
  },
  testMs,
);

async function tell(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(statement);
  await client.end();
}

test(
  'a gateway that has to go while Postgres is away leaves its journal to the next start',
  async () => {
    const { upstream, postgres } = one;
    const DATABASE_URL = await postgres.createDatabase();
    const gateway = await startGateway({
      upstreams: { fake: { url: upstream.url, models: { 'test/plain': price } } },
      env: { TOLLGATE_BOOTSTRAP_CREDITS: String(credits), DATABASE_URL },
    });
    const messages = [{ role: 'user', content: 'Two words' }];
    const ask = (key = gateway.keys.api) =>
      gateway.chat({ model: 'test/plain', messages }, { key });
    const ids = [await ask()];
    const third = await gateway.manage('POST', '/api/v1/keys', { name: 'now' });
    // Both keys are known, and are asked for again about a second after the third was made.
    await Bun.sleep(4_000);
    // Credits that nobody uses go back after five seconds.
    ids.push(await ask(String(third.body.key)));
    await postgres.halt('fast');
    const unmade = await gateway.manage('POST', '/api/v1/keys', { name: 'later' });
    expect(unmade.status).toBe(503);
    expect(unmade.error.message).toBe('The store cannot be reached right now.');
    ids.push(await ask(), await ask());
    expect(ids.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    gateway.signal('SIGTERM');
    const { stderr } = await gateway.finished;
    expect(stderr).not.toMatch(/\.ts:\d/);
    expect(stderr).toContain('The last charges are in the journal');
    await postgres.start();
    await using next = await gateway.another();

    const { database } = await openStore(DATABASE_URL);
    const charges = await chargesById(database);
    const ours = ids.map(({ headers }) => charges.get(headers.get('x-request-id') ?? ''));
    // Two words in, seven out.
    expect(ours).toEqual([25, 25, 25, 25]);
    expect(await next.balance()).toBe(credits - 100);
    expect(await discrepancies(database)).toEqual([]);
    await database.close();
  },
  testMs,
);
