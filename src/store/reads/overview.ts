import { sql } from 'kysely';
import type { Database } from '../database.ts';

/** As text: all wallets together may have more credits than a number holds exactly. */
const sumOf = (column: 'balance' | 'leased') =>
  sql<string>`cast(coalesce(sum(${sql.ref(column)}), 0) as text)`.as(column);

/** The whole installation in a few numbers. */
export async function readOverview({ report }: Database) {
  const count = (from: 'tenants' | 'api_keys') =>
    report.selectFrom(from).select((of) => of.fn.countAll<number>().as('rows'));
  const tenants = await count('tenants').executeTakeFirstOrThrow();
  const keys = await count('api_keys').where('deleted_at', 'is', null).executeTakeFirstOrThrow();
  // The limits of keys have an account for each of their periods. For `like` SQLite would read
  // these too; by the order of names, it reads wallets alone.
  const sums = await report
    .selectFrom('accounts')
    .where('owner', '>=', 'tenant:')
    .where('owner', '<', 'tenant;')
    .select([sumOf('balance'), sumOf('leased')])
    .executeTakeFirstOrThrow();
  const balance = { balance: Number(sums.balance), leased: Number(sums.leased) };
  return { tenants: tenants.rows, keys: keys.rows, balance };
}
