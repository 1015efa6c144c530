import { type Database, inTransaction, type StoreTransaction } from './database.ts';

// The version of the directory and the configuration, which every process polls.

/** A process that missed more changes than this clears all its caches. */
export const retainedChanges = 1_000;

/** Stands for a tenant in changes of the configuration, which no tenant can be called. */
export const configurationScope = '*';

/**
 * Runs a change that concerns one tenant, or all with null. Increments the directory's version,
 * unless the result is falsy.
 */
export function inVersionedTransaction<T>(
  database: Database,
  tenantId: string | null,
  work: (trx: StoreTransaction) => Promise<T>,
): Promise<T> {
  return inTransaction(database, async (trx) => {
    const result = await work(trx);
    if (result) await countChange(trx, tenantId);
    return result;
  });
}

/**
 * Increments the directory's version, which every process polls. Do this last in a transaction,
 * because all changes wait for each other's lock on this row.
 */
export async function countChange(trx: StoreTransaction, tenantId: string | null): Promise<void> {
  const { version } = await trx
    .updateTable('changes')
    .set((eb) => ({ version: eb('version', '+', 1) }))
    .returning('version')
    .executeTakeFirstOrThrow();
  await trx.insertInto('tenant_changes').values({ version, tenant_id: tenantId }).execute();
  if (version % retainedChanges !== 0) return;
  await trx
    .deleteFrom('tenant_changes')
    .where('version', '<=', version - retainedChanges)
    .execute();
}
