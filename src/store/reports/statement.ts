import { type Selectable, sql } from 'kysely';
import { walletName } from '../../money/ledger.ts';
import { allTime, type Period } from '../../records/period.ts';
import type {
  EntryRange,
  MonthReads,
  StatementLine,
  StatementRange,
  StatementReads,
  StatementRequest,
} from '../../records/statement.ts';
import { charged, type Database, SqlRepository } from '../database.ts';
import { amountColumns, amountsOf, idText } from '../ledger/request-log.ts';
import type { RequestLogTable } from '../schema.ts';

const linesPerPage = 500;

const requestColumns = [
  'request_id',
  'key_id',
  'requested_model',
  'provider',
  'traffic_mode',
  ...amountColumns,
] as const;

/** The position before the first entry; no entry has this id. */
const beforeTheFirst = { id: 0, balance_after: 0 };

/**
 * Reads the history of a wallet between two of its entries. Entries are only ever appended, so a
 * long export gets a consistent snapshot by reading the ID of the last entry once when it starts.
 */
export class SqlStatement extends SqlRepository implements StatementReads {
  async range(tenantId: string, period: Period): Promise<StatementRange> {
    const account = await this.database.read
      .selectFrom('accounts')
      .select('id')
      .where('owner', '=', walletName(tenantId))
      .executeTakeFirst();
    if (!account) return { accountId: 0, opening: 0, afterEntry: 0, lastEntry: 0 };
    const before = await this.#lastBefore(account.id, period.from);
    const last = await this.#lastBefore(account.id, period.until);
    return {
      accountId: account.id,
      opening: before.balance_after,
      afterEntry: before.id,
      lastEntry: last.id,
    };
  }

  async *lines(range: StatementRange): AsyncGenerator<readonly StatementLine[]> {
    let last = { entry: range.afterEntry + 1, row: 0 };
    for (;;) {
      const page = await pageAfter(this.database, range, last);
      if (page.length > 0) yield page.map(lineOf);
      const end = page.at(-1);
      if (!end || page.length < linesPerPage) return;
      last =
        end.log_id === null ? { entry: end.id + 1, row: 0 } : { entry: end.id, row: end.log_id };
    }
  }

  /**
   * Returns the last entry committed before a time, by binary search. The clocks of processes
   * differ slightly, so times may step back between neighbors. Because the search always probes the
   * same IDs, the same time always finds the same entry, and an earlier time never finds a later
   * entry. SQLite and Postgres need different conditions. With `account_id = …`, Postgres would
   * scan the entries of all other accounts. With a comparison of (account_id, id), SQLite would
   * scan all earlier entries of the account.
   */
  async #lastBefore(accountId: number, time: number) {
    const isAfter =
      this.database.engine === 'sqlite'
        ? sql`account_id = ${accountId} and id >= found + step`
        : sql`(account_id, id) >= (${accountId}, found + step)`;
    const halving = sql<{ found: number }>`
      with recursive halving (step, found) as (
        select cast(${await this.#firstStep(accountId)} as bigint), cast(0 as bigint)
        union all
        select step / 2, case when (
          select case when account_id = ${accountId} then created_at end from ledger_entries
          where ${isAfter}
          order by account_id, id limit 1
        ) < ${time} then found + step else found end
        from halving where step > 0
      )
      select max(found) as found from halving`;
    const { rows } = await halving.execute(this.database.read);
    const entry = await this.database.read
      .selectFrom('ledger_entries')
      .select(['id', 'balance_after'])
      .where('account_id', '=', accountId)
      .where('id', '=', rows[0]?.found ?? 0)
      .executeTakeFirst();
    return entry ?? beforeTheFirst;
  }

  /** Returns the largest power of two up to the id of the newest entry. */
  async #firstStep(accountId: number): Promise<number> {
    const row = await this.database.read
      .selectFrom('ledger_entries')
      .select((eb) => eb.fn.max('id').as('newest'))
      .where('account_id', '=', accountId)
      .executeTakeFirst();
    return row?.newest ? 2 ** Math.floor(Math.log2(row.newest)) : 0;
  }
}

async function pageAfter(
  { engine, read }: Database,
  range: StatementRange,
  last: { readonly entry: number; readonly row: number },
): Promise<PageRow[]> {
  const columns = sql.raw(requestColumns.map((name) => `log.${name}`).join(', '));
  const isOfEntry = sql`
    log.entry_id = coalesce(booking.number, entry.id) and ${charged} > 0
    and log.created_at >= coalesce(booking.first_at, ${sql.lit(-allTime.until)})
    and log.created_at <= coalesce(booking.last_at, ${sql.lit(allTime.until)})`;
  // Postgres would scan the log for a join. With a limit, it reads the rows of one entry at a time.
  const log =
    engine === 'sqlite'
      ? sql`request_log log on ${isOfEntry}`
      : sql`lateral (
          select log.* from request_log log
          where ${isOfEntry} and (entry.id > ${last.entry} or log.id > ${last.row})
          order by log.id limit ${sql.lit(linesPerPage)}
        ) log on true`;
  const { rows } = await sql<PageRow>`
    select entry.id, entry.kind, entry.amount, entry.created_at as booked_at,
      log.id as log_id, ${columns}
    from ledger_entries entry
    left join bookings booking on booking.entry_id = entry.id
    left join ${log}
    where entry.account_id = ${range.accountId}
      and entry.id >= ${last.entry} and entry.id <= ${range.lastEntry}
      and (entry.id > ${last.entry} or log.id > ${last.row} or ${last.row} = 0)
    order by entry.id, log.id limit ${sql.lit(linesPerPage)}`.execute(read);
  return rows;
}

/** An entry, with one of its requests or, if it has none, with nulls. */
interface PageRow extends Nullable<RequestRow> {
  readonly id: number;
  readonly kind: string;
  readonly amount: number;
  readonly booked_at: number;
  readonly log_id: number | null;
}

type Nullable<T> = { readonly [Name in keyof T]: T[Name] | null };
type RequestRow = Pick<Selectable<RequestLogTable>, (typeof requestColumns)[number]>;

function lineOf(row: PageRow): StatementLine {
  return {
    entryId: row.id,
    kind: row.kind,
    amount: row.amount,
    bookedAt: row.booked_at,
    // The join returns a request with all of its columns or none.
    request: row.log_id === null ? null : requestOf(row as RequestRow),
  };
}

function requestOf(row: RequestRow): StatementRequest {
  return {
    requestId: idText(row.request_id),
    keyId: row.key_id,
    requestedModel: row.requested_model,
    provider: row.provider,
    trafficMode: row.traffic_mode,
    ...amountsOf(row),
  };
}

/** Reads grants and corrections of a wallet, using the partial index that excludes charges. */
export class SqlStatementMonths extends SqlRepository implements MonthReads {
  async manualChanges({ accountId, afterEntry, lastEntry }: EntryRange) {
    const sumOf = (kind: string) =>
      sql<number>`coalesce(sum(case when kind = ${kind} then amount else 0 end), 0)`;
    // A literal, not a parameter, so that both databases can use the partial index.
    const isManual = sql<boolean>`kind <> 'charge'`;
    return this.database.read
      .selectFrom('ledger_entries')
      .select([sumOf('grant').as('granted'), sumOf('correction').as('corrected')])
      .where('account_id', '=', accountId)
      .where('id', '>', afterEntry)
      .where('id', '<=', lastEntry)
      .where(isManual)
      .executeTakeFirstOrThrow();
  }
}
