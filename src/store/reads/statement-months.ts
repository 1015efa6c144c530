import { sql } from 'kysely';
import type { EntryRange, MonthReads } from '../../record/statement-months.ts';
import { OnDatabase } from '../database.ts';

/** Grants and corrections of a wallet; the index that leaves charges out makes them few. */
export class SqlStatementMonths extends OnDatabase implements MonthReads {
  async byHand({ accountId, afterEntry, lastEntry }: EntryRange) {
    const sumOf = (kind: string) =>
      sql<number>`coalesce(sum(case when kind = ${kind} then amount else 0 end), 0)`;
    // Written out, not bound: only then the engines see that the partial index is enough.
    const isByHand = sql<boolean>`kind <> 'charge'`;
    return this.database.read
      .selectFrom('ledger_entries')
      .select([sumOf('grant').as('granted'), sumOf('correction').as('corrected')])
      .where('account_id', '=', accountId)
      .where('id', '>', afterEntry)
      .where('id', '<=', lastEntry)
      .where(isByHand)
      .executeTakeFirstOrThrow();
  }
}
