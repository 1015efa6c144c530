/** On Postgres, a transaction that writes a long answer must not block other requests. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { sql } from 'kysely';
import pg from 'pg';
import { newRequestId } from '../../src/core/ids.ts';
import type { IdempotencyClaim, Recording } from '../../src/core/recording.ts';
import { ClaimsInUse, toSettlementEntry } from '../../src/money/ledger.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { startPostgres } from '../support/postgres.ts';
import { startStallingProxy } from '../support/stalling-proxy.ts';
import { waitUntil, within } from '../support/wait-until.ts';
import { discrepancies, grant, makeRecord } from './bookings.ts';
import { addTenant } from './engines.ts';
import { failureOf } from './failure-of.ts';

const leaseMs = 30_000;
const dayMs = 86_400_000;
const running = { state: 'running' } as const;
const origin = { dialect: 'openai', form: 'reply', model: 'a/b', provider: 'p' };
const recording = { ...origin, text: 'long' } as Recording;

/** A plain client, because our driver aborts the long transactions of a slow machine. */
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

/** Runs `work` while the row of this claim is locked by a transaction that writes its answer. */
async function whileLocked<T>({ key }: IdempotencyClaim, work: () => Promise<T>): Promise<T> {
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

async function untilOneWaits(): Promise<void> {
  await waitUntil(async () => {
    const { rows } = await sql<{ waiting: number }>`
      select count(*) as waiting from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'
    `.execute(store.database.read);
    return Number(rows[0]?.waiting) === 1;
  });
}

const entryFor = (claim: IdempotencyClaim) => {
  const { requestId } = claim;
  const record = makeRecord({ tenantId, requestId });
  return toSettlementEntry({ record, writtenOff: 0, keyAccount: null, keyCharge: 0, claim });
};

describe('SqlIdempotencyClaims on Postgres while an answer is being written', () => {
  test('reports a repeated request as running without waiting', async () => {
    const first = claimOf('k');
    await store.claims.claim(first, 0, leaseMs);
    const [repeated, other] = await whileLocked(first, async () => [
      await store.claims.claim(claimOf('k'), 1, leaseMs),
      await store.claims.claim({ ...claimOf('k'), fingerprint: 'g' }, 1, leaseMs),
    ]);
    expect([repeated, other]).toEqual([running, { state: 'other_request' }]);
    const done = { state: 'done', recording } as const;
    expect(await store.claims.claim(claimOf('k'), 1, leaseMs)).toEqual(done);
  });

  test('reports a request as running after its lease has expired', async () => {
    const first = claimOf('k');
    await store.claims.claim(first, 0, leaseMs);
    const repeated = await whileLocked(first, () =>
      store.claims.claim(claimOf('k'), leaseMs, leaseMs),
    );
    expect(repeated).toEqual(running);
    const done = { state: 'done', recording } as const;
    expect(await store.claims.claim(claimOf('k'), leaseMs, leaseMs)).toEqual(done);
  });

  test('claims a new key once on a server with serializable isolation', async () => {
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
    await untilOneWaits();
    await writer.query('commit');
    expect(await later).toEqual(running);
    await strict.database.close();
  });

  test('lets another process take over from one that froze while storing its answer', async () => {
    const proxy = await startStallingProxy(url);
    const frozen = await openStore(proxy.url);
    const first = claimOf('k');
    await frozen.claims.claim(first, 0, leaseMs);
    const long = { ...recording, text: 'x'.repeat(4_000_000) };
    const finished = frozen.claims.finish({ claim: first, recording: long, expiresAt: dayMs });
    const failed = failureOf(finished);
    await within(proxy.stalled, 'the message to stall');
    expect(await store.claims.claim(claimOf('k'), leaseMs, leaseMs)).toEqual({ state: 'ours' });
    proxy.stop();
    await failed;
    await frozen.database.close();
  });

  test('extends the other claims of the process', async () => {
    const [first, other] = [claimOf('a'), claimOf('b')];
    for (const claim of [first, other]) await store.claims.claim(claim, 0, leaseMs);
    await whileLocked(first, () => store.claims.extend([first, other], 100_000));
    expect(await store.claims.claim(claimOf('b'), 99_999, leaseMs)).toEqual(running);
  });

  test('books the charges of other requests first, and the locked one afterward', async () => {
    const [first, other, unknown] = [claimOf('a'), claimOf('b'), claimOf('c')];
    for (const claim of [first, other]) await store.claims.claim(claim, 0, leaseMs);
    const terms = { processId: 'p', mayRepeat: false, mayDefer: true, now: 1 };
    const [one, two, three] = [first, other, unknown].map(entryFor);
    if (!one || !two || !three) throw new Error('Entries are missing.');
    await whileLocked(first, async () => {
      const entries = [one, two, three];
      const failure = await failureOf(store.ledger.commit({ ...terms, entries: entries }));
      expect(failure).toBeInstanceOf(ClaimsInUse);
      expect(failure).toMatchObject({ requests: new Map([[first.requestId, tenantId]]) });
      await store.ledger.commit({ ...terms, entries: [two, three] });
    });
    await store.ledger.commit({ ...terms, entries: [one] });
    const { charges } = makeRecord({});
    const wallet = await store.creditStore.balance(tenantId);
    expect(wallet?.balance).toBe(1_000 - 3 * charges.modelCharge);
    expect(await discrepancies(store)).toEqual([]);
  });

  test('waits for the lock when it replays the journal of a dead process', async () => {
    const first = claimOf('k');
    await store.claims.claim(first, 0, leaseMs);
    const terms = { processId: 'dead', mayRepeat: true, now: 1 };
    const { booking } = await whileLocked(first, async () => {
      const booking = store.ledger.commit({ ...terms, entries: [entryFor(first)] });
      await untilOneWaits();
      return { booking };
    });
    expect(await booking).toHaveLength(1);
  });
});
