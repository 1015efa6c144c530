/** On Postgres an answer that is being written, for as long as it takes, holds up nobody else. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { sql } from 'kysely';
import pg from 'pg';
import { newRequestId } from '../../src/core/ids.ts';
import type { IdempotencyClaim, Recording } from '../../src/core/recording.ts';
import { ClaimsInUse, toSettlementEntry } from '../../src/money/ledger.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { startStallingProxy } from '../support/stalling-proxy.ts';
import { startPostgres } from '../support/postgres.ts';
import { discrepancies, grant, makeRecord } from './bookings.ts';
import { addTenant } from './engines.ts';
import { failureOf } from './failure-of.ts';

const leaseMs = 30_000;
const dayMs = 86_400_000;
const running = { state: 'running' } as const;
const made = { dialect: 'openai', form: 'whole', model: 'a/b', provider: 'p' };
const recording = { ...made, text: 'long' } as Recording;

/** No driver of ours, which ends a transaction that a slow machine takes long for. */
let writer: pg.Client;
let store: Store;
let tenantId: string;
let url: string;

beforeAll(async () => {
  url = await (await startPostgres()).createDatabase();
  store = await openStore(url);
  writer = new pg.Client({ connectionString: url });
  await writer.connect();
}, 120_000);

afterAll(async () => {
  await writer?.end();
  await store?.database.close();
});

beforeEach(async () => {
  tenantId = await addTenant(store);
  await grant(store, tenantId, 1_000);
});

const claimOf = (key: string): IdempotencyClaim => {
  return { tenantId, key, fingerprint: 'f', requestId: newRequestId() };
};

/** While the row of this claim is locked, as it is by whoever writes its answer. */
async function whileWritten<T>({ key }: IdempotencyClaim, work: () => Promise<T>): Promise<T> {
  await writer.query('begin');
  await writer.query(
    'update idempotency_claims set recording = $1, is_done = 1, expires_at = $2 ' +
      'where tenant_id = $3 and key = $4',
    [JSON.stringify(recording), dayMs, tenantId, key],
  );
  const done = await work();
  await writer.query('commit');
  return done;
}

async function oneWaits(): Promise<void> {
  for (;;) {
    const { rows } = await sql<{ waiting: number }>`
      select count(*) as waiting from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'
    `.execute(store.database.read);
    if (Number(rows[0]?.waiting) === 1) return;
  }
}

const slipFor = (claim: IdempotencyClaim) => {
  const { requestId } = claim;
  const record = makeRecord({ tenantId, requestId });
  return toSettlementEntry({ record, writtenOff: 0, keyAccount: null, keyCharge: 0, claim });
};

test('a repetition of its request does not wait for its row', async () => {
  const first = claimOf('k');
  await store.claims.claim(first, 0, leaseMs);
  const [again, other] = await whileWritten(first, async () => [
    await store.claims.claim(claimOf('k'), 1, leaseMs),
    await store.claims.claim({ ...claimOf('k'), fingerprint: 'g' }, 1, leaseMs),
  ]);
  expect([again, other]).toEqual([running, { state: 'other_request' }]);
  const done = { state: 'done', recording } as const;
  expect(await store.claims.claim(claimOf('k'), 1, leaseMs)).toEqual(done);
});

test('nor does it where the lease is over: the answer may still come', async () => {
  const first = claimOf('k');
  await store.claims.claim(first, 0, leaseMs);
  const again = await whileWritten(first, () => store.claims.claim(claimOf('k'), leaseMs, leaseMs));
  expect(again).toEqual(running);
  const done = { state: 'done', recording } as const;
  expect(await store.claims.claim(claimOf('k'), leaseMs, leaseMs)).toEqual(done);
});

test('of two that bring a new key at once one waits, however strict the server is', async () => {
  const address = new URL(url);
  address.searchParams.set('options', '-c default_transaction_isolation=serializable');
  const strict = await openStore(address.href.replaceAll('+', '%20'));
  await writer.query('begin');
  await writer.query(
    'insert into idempotency_claims ' +
      '(tenant_id, key, fingerprint, request_id, is_done, expires_at) ' +
      "values ($1, 'k', 'f', 'faster', 0, $2)",
    [tenantId, leaseMs],
  );
  const later = strict.claims.claim(claimOf('k'), 1, leaseMs);
  await oneWaits();
  await writer.query('commit');
  expect(await later).toEqual(running);
  await strict.database.close();
});

test('one that freezes while its answer is on its way keeps nobody from the key', async () => {
  const line = await startStallingProxy(url);
  const frozen = await openStore(line.url);
  const first = claimOf('k');
  await frozen.claims.claim(first, 0, leaseMs);
  const long = { ...recording, text: 'x'.repeat(4_000_000) };
  const finished = frozen.claims.finish({ claim: first, recording: long, expiresAt: dayMs });
  const failed = failureOf(finished);
  await line.stalled;
  expect(await store.claims.claim(claimOf('k'), leaseMs, leaseMs)).toEqual({ state: 'ours' });
  line.stop();
  await failed;
  await frozen.database.close();
});

test('other claims of its process are extended meanwhile', async () => {
  const [first, other] = [claimOf('a'), claimOf('b')];
  for (const each of [first, other]) await store.claims.claim(each, 0, leaseMs);
  await whileWritten(first, () => store.claims.extend([first, other], 100_000));
  expect(await store.claims.claim(claimOf('b'), 99_999, leaseMs)).toEqual(running);
});

test('charges are booked meanwhile, all but its own, and that one once', async () => {
  const [first, other, unknown] = [claimOf('a'), claimOf('b'), claimOf('c')];
  for (const each of [first, other]) await store.claims.claim(each, 0, leaseMs);
  const terms = { processId: 'p', mayRepeat: false, mayDefer: true, now: 1 };
  const [one, two, three] = [first, other, unknown].map(slipFor);
  if (!one || !two || !three) throw new Error('Slips are missing.');
  await whileWritten(first, async () => {
    const slips = [one, two, three];
    const refused = await failureOf(store.ledger.commit({ ...terms, entries: slips }));
    expect(refused).toBeInstanceOf(ClaimsInUse);
    expect(refused).toMatchObject({ requests: new Map([[first.requestId, tenantId]]) });
    await store.ledger.commit({ ...terms, entries: [two, three] });
  });
  await store.ledger.commit({ ...terms, entries: [one] });
  const { charges } = makeRecord({});
  const wallet = await store.creditStore.balance(tenantId);
  expect(wallet?.balance).toBe(1_000 - 3 * charges.modelCharge);
  expect(await discrepancies(store)).toEqual([]);
});

test('a journal of a dead process waits for it: nobody would come back to its lines', async () => {
  const first = claimOf('k');
  await store.claims.claim(first, 0, leaseMs);
  const terms = { processId: 'dead', mayRepeat: true, now: 1 };
  const { booking } = await whileWritten(first, async () => {
    const booking = store.ledger.commit({ ...terms, entries: [slipFor(first)] });
    await oneWaits();
    return { booking };
  });
  expect(await booking).toHaveLength(1);
});
