import { sql } from 'kysely';
import type { PeriodicTask } from '../core/periodic-task.ts';
import { dayMs, dayOf, hoursPerDay } from '../records/period.ts';
import type { Database } from './database.ts';

/** The setting with the first day for which the request log is complete. */
const logsSinceSetting = 'request_log_since_day';

/**
 * No log is older than this. A clock without a battery starts in 1970 and stays wrong until it is
 * set.
 */
const firstDay = dayOf(Date.UTC(2024, 0, 1));

/** Rows deleted per transaction, few enough not to delay a batch of settlements noticeably. */
const batchRows = 500;
/** Lets other writers run between two batches. */
const pauseMs = 20;

/**
 * Start of the first day with a complete log, in epoch milliseconds; older rows count as deleted.
 * Use it inside a statement, so that rows and setting are read at the same moment.
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
  /** The number of full days that rows are kept. Null: forever. */
  readonly keepDays: number | null;
  /** The same for the audit log. */
  readonly auditKeepDays?: number | null;
  now(): number;
  onDone(rows: number): void;
  onFailure(error: unknown): void;
}

/**
 * Deletes old rows of the request log with their hourly sums, and of the audit log, in small
 * batches. The ledger and the daily sums are kept, so balances, statements, and daily analytics of
 * old months don't change.
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

  /** Waits for the current batch. Call it before closing the database. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #removeOld(): Promise<void> {
    const { keepDays, auditKeepDays = null, now, onFailure } = this.#deps;
    const today = dayOf(now());
    // With a clock this wrong, every stored day would be in the future.
    if (today < firstDay) return;
    try {
      if (keepDays !== null) await this.#removeOldRequests(today - keepDays, today);
      if (auditKeepDays !== null) await this.#removeOldAudit((today - auditKeepDays) * dayMs);
    } catch (error) {
      onFailure(error);
    }
  }

  async #removeOldRequests(day: number, today: number): Promise<void> {
    const { database, onDone } = this.#deps;
    let rows = 0;
    // Store the day before deleting rows, so that readers don't use a day whose rows are being
    // deleted.
    await setLogsSince(database, day, today + 1);
    for (const tenantId of await tenantsWithOld(database, day * dayMs)) {
      // Before the log, because a run that is stopped finds the tenant again by its log.
      await this.#removeOldHours(tenantId, day * hoursPerDay);
      for (let removed = batchRows; removed === batchRows && !this.#stopped; ) {
        removed = await removeBatch(database, tenantId, day * dayMs);
        rows += removed;
        await Bun.sleep(pauseMs);
      }
    }
    if (rows > 0) onDone(rows);
  }

  async #removeOldAudit(before: number): Promise<void> {
    const { database } = this.#deps;
    for (let removed = batchRows; removed === batchRows && !this.#stopped; ) {
      removed = await removeAuditBatch(database, before);
      await Bun.sleep(pauseMs);
    }
  }

  async #removeOldHours(tenantId: string, before: number): Promise<void> {
    const { database } = this.#deps;
    while (!this.#stopped && (await removeOldestHour(database, tenantId, before))) {
      await Bun.sleep(pauseMs);
    }
  }
}

async function removeAuditBatch({ write }: Database, before: number): Promise<number> {
  const removed = await write
    .deleteFrom('audit_log')
    .where('id', 'in', (eb) =>
      eb
        .selectFrom('audit_log')
        .select('id')
        .where('created_at', '<', before)
        .orderBy('created_at')
        .limit(batchRows)
        // Another process may be deleting at the same time.
        .forUpdate()
        .skipLocked(),
    )
    .executeTakeFirst();
  return Number(removed.numDeletedRows);
}

/** Deletes the sums of a tenant's oldest hour. Returns false if no hour is that old. */
async function removeOldestHour(
  { write }: Database,
  tenantId: string,
  before: number,
): Promise<boolean> {
  const removed = await write
    .deleteFrom('usage_hourly')
    .where('tenant_id', '=', tenantId)
    .where('hour', '<', before)
    .where('hour', '=', (eb) =>
      eb
        .selectFrom('usage_hourly')
        .select((row) => row.fn.min('hour').as('oldest'))
        .where('tenant_id', '=', tenantId),
    )
    .executeTakeFirst();
  return removed.numDeletedRows > 0n;
}

/**
 * Moves the day forward only, because a longer retention doesn't restore rows. If a clock that was
 * far ahead has stored a day in the future, sets the day to tomorrow, because all rows would be
 * hidden until then.
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
    .where((eb) =>
      eb.exists(
        eb
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
 * Deletes one batch. A request that was committed later than it arrived is kept until its entry is
 * old as well, so that every recent entry has all its requests, as `ledger verify` requires.
 */
async function removeBatch({ write }: Database, tenantId: string, before: number): Promise<number> {
  const isBookedLater = sql<boolean>`exists (
    select 1 from ledger_entries
    where ledger_entries.created_at >= ${before} and ledger_entries.id = coalesce(
      (select bookings.entry_id from bookings where bookings.number = request_log.entry_id),
      request_log.entry_id
    )
  )`;
  const removed = await write
    .deleteFrom('request_log')
    .where('id', 'in', (eb) =>
      eb
        .selectFrom('request_log')
        .select('id')
        .where('tenant_id', '=', tenantId)
        .where('created_at', '<', before)
        .where((row) => row.not(isBookedLater))
        .orderBy('created_at')
        .orderBy('id')
        .limit(batchRows)
        // Another process may be deleting at the same time.
        .forUpdate()
        .skipLocked(),
    )
    .executeTakeFirst();
  return Number(removed.numDeletedRows);
}
