import { type Selectable, type SelectQueryBuilder, sql } from 'kysely';
import type { LogFilter, LogPage, LogReads, LogRow } from '../../records/customer-log.ts';
import { dayMs, dayOf, type Period } from '../../records/period.ts';
import { SqlRepository } from '../database.ts';
import { amountColumns, amountsOf, detailsOf, idText } from '../ledger/request-log.ts';
import { logsSince } from '../retention.ts';
import type { RequestLogTable, Schema } from '../schema.ts';

/** Rows per page of an export. Reading a page blocks other reads for a few milliseconds. */
const exportRows = 500;

/** A UTC day, or the part of it that a filter selects, and the number of matching rows. */
interface DayCount extends Period {
  readonly rows: number;
}

/**
 * Days are read together up to this many matching rows. Otherwise, a page of a key with one request
 * per day would need a query for each row.
 */
const quietRows = 500;

/** Merges neighbors, newest first. The days between them have no matching rows. */
function mergeQuietDays(days: readonly DayCount[]): readonly DayCount[] {
  const merged: DayCount[] = [];
  for (const day of days) {
    const newer = merged.at(-1);
    if (newer && newer.rows + day.rows <= quietRows) {
      merged[merged.length - 1] = { ...newer, from: day.from, rows: newer.rows + day.rows };
    } else merged.push(day);
  }
  return merged;
}

type LogQuery = SelectQueryBuilder<Schema, 'request_log', object>;

/**
 * Reads the request log in pages. The daily sums have the number of matching rows of each day, so a
 * large offset skips whole days and then rows of a single day, never millions of rows.
 */
export class SqlLogReads extends SqlRepository implements LogReads {
  async ownsKey(tenantId: string, keyId: string): Promise<boolean> {
    const key = await this.database.read
      .selectFrom('api_keys')
      .select('id')
      .where('tenant_id', '=', tenantId)
      .where('id', '=', keyId)
      .executeTakeFirst();
    return key !== undefined;
  }

  async page(filter: LogFilter, limit: number, offset: number): Promise<LogPage> {
    const days = mergeQuietDays(await this.#countDays(filter));
    const total = days.reduce((sum, day) => sum + day.rows, 0);
    const rows: LogRow[] = [];
    let skip = offset;
    for (const day of days) {
      if (rows.length === limit) break;
      const take = Math.min(limit - rows.length, day.rows - skip);
      if (take > 0) rows.push(...(await this.#slice(filter, day, skip, take)));
      skip = Math.max(0, skip - day.rows);
    }
    return { rows, total };
  }

  async *all(filter: LogFilter): AsyncGenerator<readonly LogRow[]> {
    for (const day of await this.#countDays(filter)) {
      let last = { createdAt: day.until, id: 0 };
      for (;;) {
        const page = await this.#matching(filter, day)
          .select(shownColumns)
          .where(sql<boolean>`(created_at, id) < (${last.createdAt}, ${last.id})`)
          .orderBy('created_at', 'desc')
          .orderBy('id', 'desc')
          .limit(exportRows)
          .execute();
        if (page.length > 0) yield page.map(logRowOf);
        const end = page.at(-1);
        if (!end || page.length < exportRows) break;
        last = { createdAt: end.created_at, id: end.id };
      }
    }
  }

  /** Counts matching rows by day, newest first, leaving out days without any. */
  async #countDays(filter: LogFilter): Promise<DayCount[]> {
    const from = Math.max(filter.from, await logsSince(this.database));
    if (from >= filter.until) return [];
    const sums = await this.#sumsByDay({ ...filter, from });
    const counts: DayCount[] = [];
    for (const { day, rows } of sums) {
      if (rows === 0) continue;
      const fullDay = { from: day * dayMs, until: (day + 1) * dayMs };
      const part = {
        from: Math.max(fullDay.from, from),
        until: Math.min(fullDay.until, filter.until),
      };
      const isFullDay = part.from === fullDay.from && part.until === fullDay.until;
      counts.push({ ...part, rows: isFullDay ? rows : await this.#countRows(filter, part) });
    }
    return counts;
  }

  #sumsByDay({ tenantId, from, until, status, model, keyId }: LogFilter) {
    const rows = {
      success: sql<number>`sum(requests - failed_requests)`,
      error: sql<number>`sum(failed_requests)`,
      any: sql<number>`sum(requests)`,
    }[status ?? 'any'];
    return this.database.read
      .selectFrom('usage_daily')
      .select(['day', rows.as('rows')])
      .where('tenant_id', '=', tenantId)
      .where('day', '>=', dayOf(from))
      .where('day', '<=', dayOf(until - 1))
      .$if(keyId !== null, (query) => query.where('key_id', '=', keyId))
      .$if(model !== null, (query) => query.where('model', '=', model))
      .groupBy('day')
      .orderBy('day', 'desc')
      .execute();
  }

  async #countRows(filter: LogFilter, part: Period): Promise<number> {
    const { rows } = await this.#matching(filter, part)
      .select((eb) => eb.fn.countAll<number>().as('rows'))
      .executeTakeFirstOrThrow();
    return rows;
  }

  /** Reads from the nearer end of the day, using only the index where possible. */
  async #slice(filter: LogFilter, day: DayCount, skip: number, take: number): Promise<LogRow[]> {
    const fromNewest = skip <= day.rows / 2;
    const direction = fromNewest ? 'desc' : 'asc';
    const found = this.#matching(filter, day)
      .orderBy('created_at', direction)
      .orderBy('id', direction)
      .limit(take)
      .offset(fromNewest ? skip : day.rows - skip - take);
    const rows = await this.#withColumns(filter, day, found).execute();
    return rows.toSorted((a, b) => b.created_at - a.created_at || b.id - a.id).map(logRowOf);
  }

  /** Selects the shown columns of the rows that a query has found in an index. */
  #withColumns({ tenantId }: LogFilter, { from, until }: Period, found: LogQuery) {
    const shown = this.database.read.selectFrom('request_log').select(shownColumns);
    if (this.database.engine === 'sqlite') return shown.where('id', 'in', found.select('id'));
    // Partitions are selected by time, and have no index by ID alone.
    return shown
      .where('tenant_id', '=', tenantId)
      .where('created_at', '>=', from)
      .where('created_at', '<', until)
      .where(sql<boolean>`(created_at, id) in ${found.select(['created_at', 'id'])}`);
  }

  #matching({ tenantId, status, model, keyId }: LogFilter, { from, until }: Period): LogQuery {
    return (
      this.database.read
        .selectFrom('request_log')
        .where('tenant_id', '=', tenantId)
        .where('created_at', '>=', from)
        .where('created_at', '<', until)
        // A literal, not a parameter, so that SQLite can use the index of failures.
        .$if(status !== null, (query) => query.where('status', '=', sql.lit(status)))
        .$if(model !== null, (query) => query.where('requested_model', '=', model))
        .$if(keyId !== null, (query) => query.where('key_id', '=', keyId))
    );
  }
}

/** Only the displayed columns, because every column makes an export slower. */
const shownColumns = [
  'id',
  'request_id',
  'key_id',
  'requested_model',
  'provider',
  'status',
  'traffic_mode',
  ...amountColumns,
  'duration_ms',
  'details',
  'created_at',
] as const satisfies readonly (keyof RequestLogTable)[];

type ShownRow = Pick<Selectable<RequestLogTable>, (typeof shownColumns)[number]>;

function logRowOf(row: ShownRow): LogRow {
  const { skills = [], note = null, error = null, job, user = null } = detailsOf(row);
  return {
    requestId: idText(row.request_id),
    keyId: row.key_id,
    jobId: job,
    endUser: user,
    requestedModel: row.requested_model,
    provider: row.provider,
    status: row.status,
    error,
    trafficMode: row.traffic_mode,
    ...amountsOf(row),
    skills,
    note,
    durationMs: row.duration_ms,
    createdAt: row.created_at,
  };
}
