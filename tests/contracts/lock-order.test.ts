import { describe, expect, test } from 'bun:test';
import { sql } from 'kysely';
import { toSettlementEntry, walletName, walletOwner } from '../../src/money/ledger.ts';
import { noCharges } from '../../src/money/price/fee-kinds.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { startPostgres } from '../support/postgres.ts';
import { speechJob } from '../support/speech-job.ts';
import { waitUntil } from '../support/wait-until.ts';
import { discrepancies, grant, makeRecord } from './bookings.ts';
import { addTenant, makeKey, makeTenant, randomHash } from './engines.ts';

const ids = Array.from({ length: 21 }, (_, i) => `key_${String(i).padStart(2, '0')}`);

/**
 * Creates a database whose query plans look up rows by ID, in the order of the IDs in the query, as
 * Postgres does for large tables. It scans small tables in the same order for every query.
 */
async function databaseWithIndexScans(): Promise<string> {
  const address = new URL(await (await startPostgres()).createDatabase());
  const planNodes = ['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin'];
  address.searchParams.set('options', planNodes.map((name) => `-c enable_${name}=off`).join(' '));
  return address.href.replaceAll('+', '%20');
}

async function waitForBlocked(store: Store, count: number): Promise<void> {
  await waitUntil(async () => {
    const { rows } = await sql<{ blocked: number }>`
      select count(*) as blocked from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'
    `.execute(store.database.read);
    return rows[0]?.blocked === count;
  });
}

describe('lock order on Postgres', () => {
  test('prevents a deadlock between markUsed calls with opposite key orders', async () => {
    const url = await databaseWithIndexScans();
    const [store, one, other] = [await openStore(url), await openStore(url), await openStore(url)];
    const tenant = makeTenant();
    await store.directory.addTenant(tenant);
    for (const id of ids) await store.directory.addKey(makeKey(tenant.id, { id }), randomHash());

    // Both calls wait for the key in the middle. If they locked keys in opposite orders, each would
    // already have locked rows that the other needs next.
    const blocked = await store.database.write.transaction().execute(async (change) => {
      const middle = ids[10] ?? '';
      await change
        .updateTable('api_keys')
        .set({ name: 'locked' })
        .where('id', '=', middle)
        .execute();
      const both = Promise.all([
        one.directory.markUsed(new Map(ids.map((id) => [id, 1]))),
        other.directory.markUsed(new Map(ids.toReversed().map((id) => [id, 2]))),
      ]);
      await waitForBlocked(store, 2);
      return { both };
    });
    await blocked.both;

    const page = { limit: 50, offset: 0, includeDisabled: true };
    const keys = await store.directory.listKeys(tenant.id, page);
    expect(keys.map((key) => key.lastUsedAt)).toEqual(ids.map(() => 2));
    for (const opened of [store, one, other]) await opened.database.close();
  }, 120_000);

  test('prevents a deadlock between charges and expiring leases of the same accounts', async () => {
    const url = await databaseWithIndexScans();
    const [store, one, other] = [await openStore(url), await openStore(url), await openStore(url)];
    // Sorted by name, as charges lock them, the accounts are in the opposite order of their IDs.
    const tenantIds = ids.toReversed().map((id) => `ten_${id}`);
    for (const [index, tenantId] of tenantIds.entries()) {
      await store.directory.addTenant(makeTenant({ id: tenantId }));
      const grant = { tenantId, amount: 10, note: '', idempotencyKey: null, now: 1 };
      await store.creditStore.change(grant);
      const leaseRequest = {
        processId: 'dead',
        number: index + 1,
        startNew: false,
        credits: 10,
        oneHold: 0,
      };
      await store.ledger.lease({ ...leaseRequest, owner: walletOwner(tenantId), until: 5, now: 1 });
    }
    const records = tenantIds.map((tenantId) => makeRecord({ tenantId }));
    const entries = records.map((record) =>
      toSettlementEntry({ record, writtenOff: 0, keyAccount: null, keyCharge: 0 }),
    );

    const blocked = await store.database.write.transaction().execute(async (change) => {
      const middle = walletName(tenantIds[10] ?? '');
      await change
        .updateTable('accounts')
        .set({ recalls: 1 })
        .where('owner', '=', middle)
        .execute();
      const both = Promise.all([
        one.ledger.commit({ processId: 'dead', entries, mayRepeat: false, now: 2 }),
        other.ledger.expire(6),
      ]);
      await waitForBlocked(store, 2);
      return { both };
    });
    await blocked.both;

    const { read } = store.database;
    const accounts = await read.selectFrom('accounts').select(['balance', 'leased']).execute();
    expect(accounts).toEqual(tenantIds.map(() => ({ balance: 3, leased: 0 })));
    for (const opened of [store, one, other]) await opened.database.close();
  }, 120_000);

  test('writes the log rows of a batch before it waits for the account', async () => {
    const url = await (await startPostgres()).createDatabase();
    const [store, other] = [await openStore(url), await openStore(url)];
    const tenantId = await addTenant(store);
    await grant(store, tenantId, 100);
    const entries = [makeRecord({ tenantId })].map((record) =>
      toSettlementEntry({ record, writtenOff: 0, keyAccount: null, keyCharge: 0 }),
    );
    const { write } = store.database;
    const waiting = await write.transaction().execute(async (change) => {
      await change.updateTable('accounts').set({ recalls: 1 }).execute();
      const committed = other.ledger.commit({ processId: 'p', entries, mayRepeat: false, now: 2 });
      await waitForBlocked(store, 1);
      const { rows } = await sql<{ writing: boolean }>`
        select exists (
          select from pg_locks writes join pg_locks waits using (pid)
          where not waits.granted and writes.relation = 'request_log'::regclass
            and writes.mode = 'RowExclusiveLock'
        ) as writing`.execute(store.database.read);
      expect(rows).toEqual([{ writing: true }]);
      return { committed };
    });
    expect(await waiting.committed).toMatchObject([{ charge: 7 }]);
    expect(await discrepancies(store)).toEqual([]);
    for (const opened of [store, other]) await opened.database.close();
  }, 120_000);

  test("does not make a job's free piece wait for the lock on the job", async () => {
    const url = await (await startPostgres()).createDatabase();
    const [store, other] = [await openStore(url), await openStore(url)];
    const tenant = makeTenant();
    await store.directory.addTenant(tenant);
    const job = speechJob({ tenantId: tenant.id });
    await store.jobs.store.enqueue(job, { waitingMax: 1, inputBytesMax: job.inputBytes }, null);
    const { id: jobId } = job;
    const record = makeRecord({ tenantId: tenant.id, jobId, charges: noCharges });
    const entry = toSettlementEntry({ record, writtenOff: 0, keyAccount: null, keyCharge: 0 });

    // The commit succeeds while another transaction has locked the job's row.
    await store.database.write.transaction().execute(async (change) => {
      await change.updateTable('jobs').set({ attempts: 1 }).where('id', '=', jobId).execute();
      await other.ledger.commit({ processId: 'p', entries: [entry], mayRepeat: false, now: 2 });
    });
    for (const opened of [store, other]) await opened.database.close();
  }, 120_000);
});
