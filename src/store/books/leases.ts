import type { Expression, ExpressionBuilder, Selectable, SqlBool } from 'kysely';
import type { StoreTransaction } from '../database.ts';
import type { LeasesTable, Schema } from '../schema.ts';

export type LeaseCondition = (of: ExpressionBuilder<Schema, 'leases'>) => Expression<SqlBool>;

/** Locks leases in one order for everybody, as `lockAccounts` does: nobody waits in a circle. */
export function lockLeases(
  change: StoreTransaction,
  which: LeaseCondition,
): Promise<Selectable<LeasesTable>[]> {
  return change
    .selectFrom('leases')
    .selectAll()
    .where(which)
    .orderBy('account_id')
    .orderBy('process_id')
    .forUpdate()
    .execute();
}
