import { sql } from 'kysely';
import type { KeySpending, Spending } from '../../auth/management/keys.ts';
import { type LimitReset, limitPeriod, limitResets } from '../../core/caller.ts';
import { walletName } from '../../money/ledger.ts';
import type { TenantSumReads, TenantSums } from '../../records/analytics.ts';
import { type DayRange, daysOf } from '../../records/period.ts';
import type { WalletReads, WalletTotals } from '../../records/statement.ts';
import { charged, type Database, type ReadOnlyDatabase, SqlRepository } from '../database.ts';
import { heldOf } from '../ledger/accounts.ts';

/** Returns text, because the sum of all wallets can exceed JavaScript's exact integers. */
const sumOf = (column: 'balance' | 'leased' | 'held') =>
  sql<string>`cast(coalesce(sum(${sql.ref(column)}), 0) as text)`.as(column);

/** Reads the operator's overview of the installation. */
export async function readOverview({ report }: Database, exceptProcess = '') {
  const count = (from: 'tenants' | 'api_keys') =>
    report.selectFrom(from).select((eb) => eb.fn.countAll<number>().as('rows'));
  const tenants = await count('tenants').executeTakeFirstOrThrow();
  const keys = await count('api_keys').where('deleted_at', 'is', null).executeTakeFirstOrThrow();
  // Key limits have an account for each period. With `like`, SQLite would read these accounts too.
  // With a range of names, it reads only wallets.
  const wallets = report
    .selectFrom('accounts')
    .where('owner', '>=', 'tenant:')
    .where('owner', '<', 'tenant;')
    .select(['balance', 'leased', heldOf(exceptProcess)]);
  const sums = await report
    .selectFrom(wallets.as('wallets'))
    .select([sumOf('balance'), sumOf('leased'), sumOf('held')])
    .executeTakeFirstOrThrow();
  const balance = {
    balance: Number(sums.balance),
    leased: Number(sums.leased),
    held: Number(sums.held),
  };
  return { tenants: tenants.rows, keys: keys.rows, balance };
}

/** Totals of a wallet from its account, its grants and corrections, and the daily sums. */
export class SqlWalletTotals extends SqlRepository implements WalletReads {
  /** Uses one statement, so that the numbers are consistent while settlements are committed. */
  async totals(tenantId: string, exceptProcess = ''): Promise<WalletTotals> {
    // The condition `kind <> 'charge'` lets both databases use the partial index without charges.
    const manual = (kind: string) => sql<number>`(
      select coalesce(sum(amount), 0) from ledger_entries
      where account_id = accounts.id and kind <> 'charge' and kind = ${kind}
    )`;
    const requests = sql<number>`(
      select coalesce(sum(requests), 0) from usage_daily where tenant_id = ${tenantId}
    )`;
    const row = await this.database.read
      .selectFrom('accounts')
      .select(['balance', 'spent', heldOf(exceptProcess)])
      .select([
        manual('grant').as('granted'),
        manual('correction').as('adjusted'),
        requests.as('requests'),
      ])
      .where('owner', '=', walletName(tenantId))
      .executeTakeFirst();
    return row ?? { balance: 0, held: 0, spent: 0, granted: 0, adjusted: 0, requests: 0 };
  }
}

/** Reads the daily sums of several tenants at once. */
export class SqlTenantSums extends SqlRepository implements TenantSumReads {
  async sumsOf(tenantIds: readonly string[], days: DayRange): Promise<TenantSums[]> {
    if (tenantIds.length === 0) return [];
    return this.database.read
      .selectFrom('usage_daily')
      .select([
        'tenant_id as tenantId',
        sql<number>`sum(requests)`.as('requests'),
        sql<number>`sum(failed_requests)`.as('failed'),
        sql<number>`sum(${charged})`.as('spend'),
        sql<number>`sum(written_off)`.as('writtenOff'),
      ])
      .where('tenant_id', 'in', tenantIds)
      .where('day', '>=', days.first)
      .where('day', '<=', days.last)
      .groupBy('tenant_id')
      .execute();
  }
}

/**
 * Reads from the daily sums what keys have spent. A request counts on the day on which it arrived.
 */
export class SqlKeySpending extends SqlRepository implements KeySpending {
  async spent(
    tenantId: string,
    keyIds: readonly string[],
    now: number,
  ): Promise<ReadonlyMap<string, Spending>> {
    if (keyIds.length === 0) return new Map();
    // The end of the period is a bound, too, because another process may already be in the next
    // period.
    const spent = (reset: LimitReset) => {
      const { first, last } = daysOf(limitPeriod(reset, now));
      const isIn = sql<boolean>`day between ${sql.lit(first)} and ${sql.lit(last)}`;
      return sql<number>`sum(case when ${isIn} then ${charged} else 0 end)`.as(reset);
    };
    const rows = await this.database.read
      .selectFrom('usage_daily')
      .select(['key_id', sql<number>`sum(${charged})`.as('total')])
      .select(limitResets.map(spent))
      .where('key_id', 'in', keyIds)
      .where('tenant_id', '=', tenantId)
      .groupBy('key_id')
      .execute();
    return new Map(rows.map(({ key_id, ...spending }) => [key_id, spending]));
  }
}

interface OverdueLeases {
  readonly leases: number;
  readonly credits: number;
}

/** Counts leases that expired before this time but were never returned by their processes. */
export async function overdueLeases(
  { read }: ReadOnlyDatabase,
  before: number,
): Promise<OverdueLeases> {
  const { leases, credits } = await read
    .selectFrom('leases')
    .select(({ fn }) => [
      fn.countAll<number>().as('leases'),
      fn.coalesce(fn.sum<number>('credits'), sql.lit(0)).as('credits'),
    ])
    .where('until', '<', before)
    .executeTakeFirstOrThrow();
  return { leases, credits };
}
