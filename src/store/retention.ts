import { sql } from 'kysely';
import type { PeriodicTask } from '../core/periodic-task.ts';
import { dayMs, dayOf } from '../records/period.ts';
import type { Database } from './database.ts';

/** The setting that says from which day on the request log is whole. */
const logsSinceSetting = 'request_log_since_day';

/** No log is older than this. A clock without a battery begins in 1970 until it is set. */
const firstDay = dayOf(Date.UTC(2024, 0, 1));

/** Rows that one transaction removes: a drain that waits behind it hardly notices. */
const batchRows = 500;
/** Lets other writers in between two batches. */
const pauseMs = 20;

/**
 * Epoch milliseconds of the first day whose rows are all there; older rows count as gone. To be
 * used inside a statement, which then sees rows and setting at the same moment.
 */
export const logCompleteSince = sql<number>`(
  select coalesce(max(cast(value as bigint)), 0) * ${sql.lit(dayMs)} from settings
  where name = ${sql.lit(logsSinceSetting)}
)`;

export async function logsSince({ read }: Pick<Database, 'read'>): Promise<number> {
  const row = await read.selectNoFrom(logCompleteSince.as('since')).executeTakeFirstOrThrow();
  return row.since;
}

interface RetentionDeps {
  readonly database: Database;
  /** Rows stay for so many whole days. */
  readonly keepDays: number;
  now(): number;
  onDone(rows: number): void;
  onFailure(error: unknown): void;
}

/**
 * Removes old rows of the request log, in small batches. Ledger and daily sums stay as they are:
 * balances, statements and analytics of old months do not change, only their single requests go.
 */
export class LogRetention {
  readonly #deps: RetentionDeps;
  #running: Promise<void> | undefined;
  #stopped = false;

  constructor(deps: RetentionDeps) {
    this.#deps = deps;
  }

  periodicTasks(): PeriodicTask[] {
    return [{ everyMs: dayMs, run: () => this.run() }];
  }

  run(): Promise<void> {
    this.#running ??= this.#removeOld().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Before the database closes: waits for the batch that is being removed. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #removeOld(): Promise<void> {
    const { database, keepDays, now, onDone, onFailure } = this.#deps;
    const today = dayOf(now());
    // By a clock that wrong, every day that was noted lies in the future.
    if (today < firstDay) return;
    const day = today - keepDays;
    let rows = 0;
    try {
      // Noted before rows are removed: readers must not count on a day that is being emptied.
      await setLogsSince(database, day, today + 1);
      for (const tenantId of await tenantsWithOld(database, day * dayMs)) {
        for (let removed = batchRows; removed === batchRows && !this.#stopped; ) {
          removed = await removeBatch(database, tenantId, day * dayMs);
          rows += removed;
          await Bun.sleep(pauseMs);
        }
      }
      if (rows > 0) onDone(rows);
    } catch (error) {
      onFailure(error);
    }
  }
}

/**
 * Never backwards: a longer retention does not bring rows back. But a clock that was far ahead may
 * have noted a future day, which hides all rows until then: it becomes tomorrow.
 */
async function setLogsSince({ write }: Database, day: number, tomorrow: number): Promise<void> {
  const since = sql<number>`cast(settings.value as integer)`;
  await write
    .insertInto('settings')
    .values({ name: logsSinceSetting, value: String(day) })
    .onConflict((conflict) =>
      conflict
        .column('name')
        .doUpdateSet({ value: String(day) })
        .where(since, '<', sql.lit(day)),
    )
    .execute();
  await write
    .updateTable('settings')
    .set({ value: String(tomorrow) })
    .where('name', '=', logsSinceSetting)
    .where(since, '>', sql.lit(tomorrow))
    .execute();
}

async function tenantsWithOld({ report }: Database, before: number): Promise<string[]> {
  const tenants = await report
    .selectFrom('tenants')
    .select('id')
    .where((of) =>
      of.exists(
        of
          .selectFrom('request_log')
          .select('request_log.id')
          .whereRef('request_log.tenant_id', '=', 'tenants.id')
          .where('request_log.created_at', '<', before),
      ),
    )
    .execute();
  return tenants.map(({ id }) => id);
}

/**
 * A request that was booked later than it arrived stays until its booking is old as well: so the
 * entries that are young have all their requests, and the checker can rely on it.
 */
async function removeBatch({ write }: Database, tenantId: string, before: number): Promise<number> {
  const isBookedLater = sql<boolean>`exists (
    select 1 from ledger_entries
    where ledger_entries.id = request_log.entry_id and ledger_entries.created_at >= ${before}
  )`;
  const removed = await write
    .deleteFrom('request_log')
    .where('id', 'in', (of) =>
      of
        .selectFrom('request_log')
        .select('id')
        .where('tenant_id', '=', tenantId)
        .where('created_at', '<', before)
        .where((row) => row.not(isBookedLater))
        .orderBy('created_at')
        .orderBy('id')
        .limit(batchRows)
        // Another process may be at the same work.
        .forUpdate()
        .skipLocked(),
    )
    .executeTakeFirst();
  return Number(removed.numDeletedRows);
}
