import { expect, test } from 'bun:test';
import { sql } from 'kysely';
import { toSettlementEntry, walletName, walletOwner } from '../../src/money/ledger.ts';
import { noCharges } from '../../src/money/price/fee-kinds.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { startPostgres } from '../support/postgres.ts';
import { speechJob } from '../support/speech-job.ts';
import { makeRecord } from './bookings.ts';
import { makeKey, makeTenant, randomHash } from './engines.ts';

const ids = Array.from({ length: 21 }, (_, i) => `key_${String(i).padStart(2, '0')}`);

/**
 * Among very many keys Postgres finds each one by its id, in the order it was given; among few it
 * reads the whole table, in the same order for everybody. These settings make it do the former.
 */
async function databaseAsWithManyKeys(): Promise<string> {
  const address = new URL(await (await startPostgres()).createDatabase());
  const ways = ['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin'];
  address.searchParams.set('options', ways.map((name) => `-c enable_${name}=off`).join(' '));
  return address.href.replaceAll('+', '%20');
}

async function waitForBlocked(store: Store, count: number): Promise<void> {
  for (;;) {
    const { rows } = await sql<{ blocked: number }>`
      select count(*) as blocked from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'
    `.execute(store.database.read);
    if (rows[0]?.blocked === count) return;
  }
}

test('processes that mark the same keys as used in opposite orders both get through', async () => {
  const url = await databaseAsWithManyKeys();
  const [holder, one, other] = [await openStore(url), await openStore(url), await openStore(url)];
  const tenant = makeTenant();
  await holder.directory.addTenant(tenant);
  for (const id of ids) await holder.directory.addKey(makeKey(tenant.id, { id }), randomHash());

  // Both come as far as the key in the middle; in opposite orders each would then hold what the
  // other needs next.
  const marking = await holder.database.write.transaction().execute(async (change) => {
    const middle = ids[10] ?? '';
    await change.updateTable('api_keys').set({ name: 'held' }).where('id', '=', middle).execute();
    const both = Promise.all([
      one.directory.markUsed(new Map(ids.map((id) => [id, 1]))),
      other.directory.markUsed(new Map(ids.toReversed().map((id) => [id, 2]))),
    ]);
    await waitForBlocked(holder, 2);
    return { both };
  });
  await marking.both;

  const page = { limit: 50, offset: 0, includeDisabled: true };
  const keys = await holder.directory.listKeys(tenant.id, page);
  expect(keys.map((key) => key.lastUsedAt)).toEqual(ids.map(() => 2));
  for (const store of [holder, one, other]) await store.database.close();
}, 120_000);

test('charges, and leases that end, of the same accounts both get through', async () => {
  const url = await databaseAsWithManyKeys();
  const [holder, one, other] = [await openStore(url), await openStore(url), await openStore(url)];
  // By name, in which charges know them, they stand the other way round than by number.
  const tenantIds = ids.toReversed().map((id) => `ten_${id}`);
  for (const [at, tenantId] of tenantIds.entries()) {
    await holder.directory.addTenant(makeTenant({ id: tenantId }));
    const grant = { tenantId, amount: 10, note: '', idempotencyKey: null, now: 1 };
    await holder.creditStore.change(grant);
    const order = { processId: 'dead', number: at + 1, startNew: false, credits: 10, oneHold: 0 };
    await holder.ledger.lease({ ...order, owner: walletOwner(tenantId), until: 5, now: 1 });
  }
  const records = tenantIds.map((tenantId) => makeRecord({ tenantId }));
  const slips = records.map((record) =>
    toSettlementEntry({ record, writtenOff: 0, keyAccount: null, keyCharge: 0 }),
  );

  const changing = await holder.database.write.transaction().execute(async (change) => {
    const middle = walletName(tenantIds[10] ?? '');
    await change.updateTable('accounts').set({ recalls: 1 }).where('owner', '=', middle).execute();
    const both = Promise.all([
      one.ledger.commit({ processId: 'dead', entries: slips, mayRepeat: false, now: 2 }),
      other.ledger.expire(6),
    ]);
    await waitForBlocked(holder, 2);
    return { both };
  });
  await changing.both;

  const { read } = holder.database;
  const accounts = await read.selectFrom('accounts').select(['balance', 'leased']).execute();
  expect(accounts).toEqual(tenantIds.map(() => ({ balance: 3, leased: 0 })));
  for (const store of [holder, one, other]) await store.database.close();
}, 120_000);

test('a piece of a job that costs nothing waits for nobody who changes the job', async () => {
  const url = await (await startPostgres()).createDatabase();
  const [holder, other] = [await openStore(url), await openStore(url)];
  const tenant = makeTenant();
  await holder.directory.addTenant(tenant);
  const job = speechJob({ tenantId: tenant.id });
  await holder.jobs.store.enqueue(job, { waitingMax: 1, inputBytesMax: job.inputBytes }, null);
  const { id: jobId } = job;
  const record = makeRecord({ tenantId: tenant.id, jobId, charges: noCharges });
  const slip = toSettlementEntry({ record, writtenOff: 0, keyAccount: null, keyCharge: 0 });

  // Without a charge it holds no account either, by which others would know to wait for it.
  await holder.database.write.transaction().execute(async (change) => {
    await change.updateTable('jobs').set({ attempts: 1 }).where('id', '=', jobId).execute();
    await other.ledger.commit({ processId: 'p', entries: [slip], mayRepeat: false, now: 2 });
  });
  for (const store of [holder, other]) await store.database.close();
}, 120_000);
