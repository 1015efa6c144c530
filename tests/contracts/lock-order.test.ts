import { expect, test } from 'bun:test';
import { sql } from 'kysely';
import { openStore, type Store } from '../../src/store/open.ts';
import { startPostgres } from '../support/postgres.ts';
import { makeKey, makeTenant, randomHash } from './engines.ts';

const ids = Array.from({ length: 21 }, (_, i) => `key_${String(i).padStart(2, '0')}`);

/**
 * Among very many keys Postgres finds each one by its id, in the order it was given; among few it
 * reads the whole table, in the same order for everybody. These settings make it do the former.
 */
async function databaseAsWithManyKeys(): Promise<string> {
  const address = new URL(await (await startPostgres()).createDatabase());
  const off = ['seqscan', 'hashjoin', 'mergejoin'].map((name) => `-c enable_${name}=off`);
  address.searchParams.set('options', off.join(' '));
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
