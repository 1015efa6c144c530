/**
 * A Postgres outage under load. Requests continue within the leased credits. After the outage, the
 * ledger contains each request once.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import pg from 'pg';
import { openStore } from '../../src/store/open.ts';
import {
  chatAnswer,
  type FakeUpstreamProcess,
  startFakeUpstreamProcess,
  words,
} from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { chargesById, discrepancies } from '../support/ledger-check.ts';
import { credits, expectCorrectCharges, price } from '../support/money/expected-charges.ts';
import { Traffic } from '../support/money/traffic.ts';
import { type OwnPostgres, startOwnPostgres } from '../support/postgres.ts';
import { waitUntil, within } from '../support/wait-until.ts';

const testMs = 120_000;
/** An outage of 20 seconds is supported. The suite uses a shorter one by default. */
const outageMs = Number(process.env.TEST_OUTAGE_MS ?? 8_000);

interface Rig {
  readonly upstream: FakeUpstreamProcess;
  readonly postgres: OwnPostgres;
}

/** There is one rig per outage, so that both outages can run concurrently. */
let stoppedRig: Rig;
let frozenRig: Rig;

async function startRig(): Promise<Rig> {
  const upstream = await startFakeUpstreamProcess();
  await upstream.script('chat', chatAnswer(words(20), { chunkDelayMs: 20 }));
  await upstream.script('plain', chatAnswer(words(7), { chunkDelayMs: 0 }));
  return { upstream, postgres: await startOwnPostgres({ durable: true }) };
}

beforeAll(async () => {
  stoppedRig = await startRig();
  frozenRig = await startRig();
}, testMs);
afterAll(async () => {
  for (const { upstream, postgres } of [stoppedRig, frozenRig]) {
    await postgres.stop();
    await upstream.stop();
  }
}, testMs);

interface LoadResult {
  readonly statuses: ReadonlySet<number>;
  readonly traffic: Traffic;
}

/** Sends load before, during, and after an outage. */
async function loadThrough(
  upstream: FakeUpstreamProcess,
  DATABASE_URL: string,
  startOutage: () => Promise<void> | void,
  endOutage: () => Promise<void> | void,
): Promise<LoadResult> {
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
  await startOutage();
  const served = traffic.untilMore(20);
  const statuses = await pollReadiness(gateway, outageMs);
  await served;
  await endOutage();
  await untilReady(gateway);
  await traffic.untilMore(20);
  traffic.stop();
  await sending;
  await gateway.stop();
  return { statuses, traffic };
}

async function pollReadiness(gateway: Gateway, forMs: number): Promise<ReadonlySet<number>> {
  const statuses = new Set<number>();
  const until = performance.now() + forMs;
  while (performance.now() < until) {
    const deadline = AbortSignal.timeout(Math.max(1, until - performance.now()));
    const status = await gateway.request('GET', '/readyz', { signal: deadline }).then(
      (answer) => answer.status,
      (failure: unknown) => {
        if (!deadline.aborted) throw failure;
      },
    );
    // Undefined if our own deadline interrupted the request.
    if (status !== undefined) statuses.add(status);
    expect((await gateway.call('GET', '/healthz')).status).toBe(200);
    await Bun.sleep(200);
  }
  return statuses;
}

async function untilReady(gateway: Gateway): Promise<void> {
  await waitUntil(async () => (await gateway.call('GET', '/readyz')).status === 200, {
    everyMs: 50,
  });
}

async function expectAllBooked(
  upstream: FakeUpstreamProcess,
  url: string,
  traffic: Traffic,
): Promise<void> {
  const { booked, sent } = await expectCorrectCharges(url, upstream, traffic);
  expect(booked).toBe(sent);
}

test.concurrent(
  'a restart of Postgres fails no request and loses no charge',
  async () => {
    const { upstream, postgres } = stoppedRig;
    const url = await postgres.createDatabase();
    const { statuses, traffic } = await loadThrough(
      upstream,
      url,
      () => postgres.halt('immediate'),
      () => postgres.start(),
    );
    expect([...statuses]).toEqual([503]);
    expect(traffic.rejections).toEqual([]);
    expect(traffic.broken).toEqual([]);
    await expectAllBooked(upstream, url, traffic);
  },
  testMs,
);

test.concurrent(
  'a frozen Postgres fails no request and loses no charge',
  async () => {
    const { upstream, postgres } = frozenRig;
    const url = await postgres.createDatabase();
    const { statuses, traffic } = await loadThrough(
      upstream,
      url,
      () => postgres.pause(),
      () => postgres.resume(),
    );
    expect(statuses.has(200)).toBe(false);
    expect(traffic.rejections).toEqual([]);
    expect(traffic.broken).toEqual([]);
    await expectAllBooked(upstream, url, traffic);
  },
  testMs,
);

test(
  '/readyz returns 503 while Postgres is read-only, which happens after a failover',
  async () => {
    const { postgres } = stoppedRig;
    const DATABASE_URL = await postgres.createDatabase();
    await using gateway = await startGateway({ env: { DATABASE_URL } });
    const readOnly = async (value: 'on' | 'off') => {
      await execute(postgres.url, `alter system set default_transaction_read_only = ${value}`);
      await execute(postgres.url, 'select pg_reload_conf()');
    };
    const ready = () => gateway.call('GET', '/readyz');
    expect((await ready()).status).toBe(200);
    await readOnly('on');
    // Each session of the server applies new settings at a different time.
    const answer = await waitUntil(async () => {
      const found = await ready();
      return found.status !== 200 && found;
    });
    expect(answer.body.reason).toMatch(/^The store is unavailable: Postgres is read-only: /);
    await readOnly('off');
    await untilReady(gateway);
  },
  testMs,
);

async function execute(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(statement);
  await client.end();
}

test(
  'a shutdown during an outage leaves the journal for the next startup to book',
  async () => {
    const { upstream, postgres } = stoppedRig;
    const DATABASE_URL = await postgres.createDatabase();
    const gateway = await startGateway({
      upstreams: { fake: { url: upstream.url, models: { 'test/plain': price } } },
      env: { TOLLGATE_BOOTSTRAP_CREDITS: String(credits), DATABASE_URL },
    });
    const messages = [{ role: 'user', content: 'Two words' }];
    const chat = (key = gateway.keys.api) =>
      gateway.chat({ model: 'test/plain', messages }, { key });
    const ids = [await chat()];
    const created = await gateway.manage('POST', '/api/v1/keys', { name: 'now' });
    // A new key makes the process reload all keys about a second later.
    await Bun.sleep(4_000);
    // Unused credits are returned after 5 seconds.
    ids.push(await chat(String(created.body.key)));
    await postgres.halt('fast');
    const rejected = await gateway.manage('POST', '/api/v1/keys', { name: 'later' });
    expect(rejected.status).toBe(503);
    expect(rejected.error.message).toBe("The database can't be reached right now.");
    ids.push(await chat(), await chat());
    expect(ids.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    gateway.signal('SIGTERM');
    const { stderr } = await within(gateway.finished, 'the gateway to exit', 60_000);
    expect(stderr).not.toMatch(/\.ts:\d/);
    expect(stderr).toContain('The last charges are in the journal');
    await postgres.start();
    await using next = await gateway.another();

    const { database } = await openStore(DATABASE_URL);
    const charges = await chargesById(database);
    const booked = ids.map(({ headers }) => charges.get(headers.get('x-request-id') ?? ''));
    // 2 words of input and 7 of output.
    expect(booked).toEqual([25, 25, 25, 25]);
    expect(await next.balance()).toBe(credits - 100);
    expect(await discrepancies(database)).toEqual([]);
    await database.close();
  },
  testMs,
);
