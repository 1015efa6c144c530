import type { Database } from '../database.ts';

/** The whole installation in three numbers. */
export async function readOverview({ read }: Database) {
  const count = (from: 'tenants' | 'api_keys') =>
    read.selectFrom(from).select((of) => of.fn.countAll<number>().as('rows'));
  const tenants = await count('tenants').executeTakeFirstOrThrow();
  const keys = await count('api_keys').where('deleted_at', 'is', null).executeTakeFirstOrThrow();
  const balance = await read
    .selectFrom('accounts')
    .where('owner', 'like', 'tenant:%')
    .select((of) => [
      of.fn.coalesce(of.fn.sum<number>('balance'), of.lit(0)).as('balance'),
      of.fn.coalesce(of.fn.sum<number>('leased'), of.lit(0)).as('leased'),
    ])
    .executeTakeFirstOrThrow();
  return { tenants: tenants.rows, keys: keys.rows, balance };
}
