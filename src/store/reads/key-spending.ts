import { sql } from 'kysely';
import type { KeySpending, Spending } from '../../auth/manage/key-spending.ts';
import { dayOf } from '../../record/period.ts';
import { charged } from '../charged.ts';
import type { Database } from '../database.ts';

/** What keys have spent, from the daily sums: by the day on which a request arrived. */
export class SqlKeySpending implements KeySpending {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async spent(
    tenantId: string,
    keyIds: readonly string[],
    now: number,
  ): Promise<ReadonlyMap<string, Spending>> {
    if (keyIds.length === 0) return new Map();
    const { today, monday, first } = beginningsOf(now);
    const since = (day: number) =>
      sql<number>`sum(case when day >= ${sql.lit(day)} then ${charged} else 0 end)`;
    const rows = await this.#database.read
      .selectFrom('usage_daily')
      .select(['key_id', sql<number>`sum(${charged})`.as('total')])
      .select([since(today).as('daily'), since(monday).as('weekly'), since(first).as('monthly')])
      .where('key_id', 'in', keyIds)
      .where('tenant_id', '=', tenantId)
      .groupBy('key_id')
      .execute();
    return new Map(rows.map(({ key_id, ...spending }) => [key_id, spending]));
  }
}

/** The days on which the running day, week (from Monday) and month began. */
function beginningsOf(now: number) {
  const date = new Date(now);
  const today = dayOf(now);
  return {
    today,
    monday: today - ((date.getUTCDay() + 6) % 7),
    first: today - date.getUTCDate() + 1,
  };
}
