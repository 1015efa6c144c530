import { sql } from 'kysely';
import type { KeySpending, Spending } from '../../auth/manage/key-spending.ts';
import { type LimitReset, limitResets } from '../../core/caller.ts';
import { limitPeriod } from '../../core/limit-period.ts';
import { daysOf } from '../../record/period.ts';
import { OnDatabase } from '../database.ts';
import { charged } from '../expressions.ts';

/** What keys have spent, from the daily sums: by the day on which a request arrived. */
export class SqlKeySpending extends OnDatabase implements KeySpending {
  async spent(
    tenantId: string,
    keyIds: readonly string[],
    now: number,
  ): Promise<ReadonlyMap<string, Spending>> {
    if (keyIds.length === 0) return new Map();
    // Up to the end of the period, as its limit counts: another process may be in the next one.
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
