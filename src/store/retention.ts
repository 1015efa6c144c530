import { sql } from 'kysely';
import type { PeriodicTask } from '../core/periodic-task.ts';
import { dayMs, dayOf, hoursPerDay } from '../records/period.ts';
import type { Database, Engine, LogPartition } from './database.ts';
import type { LogPartitioning } from './log-partitioning.ts';

/** The setting with the first day for which the request log is complete. */
const logsSinceSetting = 'request_log_since_day';

/**
 * No log is older than this. A clock without a battery starts in 1970 and stays wrong until it is
 * set.
 */
export const firstDay = dayOf(Date.UTC(2024, 0, 1));

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
  /** Runs alongside, because the first time takes minutes. */
  readonly partitioning?: LogPartitioning | undefined;
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
    const partitioning = this.#deps.partitioning?.periodicTasks() ?? [];
    return [{ everyMs: dayMs, run: () => this.run() }, ...partitioning];
  }

  run(): Promise<void> {
    void this.#deps.partitioning?.run();
    this.#running ??= this.#removeOld().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Waits for the current batch. Call it before closing the database. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#deps.partitioning?.stop();
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
    // Store the day before deleting rows, so that readers don't use a day whose rows are being
    // deleted.
    await setLogsSince(database, day, today + 1);
    const tenants = await tenantsWithOld(database, day * dayMs);
    // Before the log, because a run that is stopped finds the tenants again by their log.
    for (const tenantId of tenants) await this.#removeOldHours(tenantId, day * hoursPerDay);
    if (this.#stopped) return;
    let rows = (await database.logPartitions?.removeBefore(day * dayMs)) ?? 0;
    for (const table of await tablesByRow(database)) {
      for (const tenantId of tenants) rows += await this.#removeRows(table, tenantId, day * dayMs);
    }
    if (rows > 0) onDone(rows);
  }

  async #removeRows(table: string, tenantId: string, before: number): Promise<number> {
    let rows = 0;
    for (let removed = batchRows; removed === batchRows && !this.#stopped; ) {
      removed = await removeBatch(this.#deps.database, table, tenantId, before);
      rows += removed;
      await Bun.sleep(pauseMs);
    }
    return rows;
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
 * Returns the tables whose old rows are deleted one by one: those for requests of any age, and
 * those of another user. Other partitions are removed as a whole.
 */
async function tablesByRow({ logPartitions }: Database): Promise<readonly string[]> {
  const partitions = await logPartitions?.list();
  if (!partitions) return ['request_log'];
  const isByRow = ({ from, isDefault, isOwned }: LogPartition) =>
    isDefault || !isOwned || !Number.isFinite(from);
  return partitions.filter(isByRow).map(({ name }) => name);
}

/**
 * Deletes one batch. A request that was committed later than it arrived is kept until its entry is
 * old as well, so that every recent entry has all its requests, as `ledger verify` requires.
 */
async function removeBatch(
  { engine, write }: Database,
  table: string,
  tenantId: string,
  before: number,
): Promise<number> {
  // A partition has no index by ID alone.
  const key = sql.raw(engine === 'sqlite' ? 'id' : 'created_at, id');
  const { numAffectedRows = 0n } = await sql`
    delete from ${sql.table(table)}
    where tenant_id = ${tenantId} and created_at < ${before} and (${key}) in (
      select ${key} from ${sql.table(table)} as log
      where tenant_id = ${tenantId} and created_at < ${before} and not exists (
        select 1 from ledger_entries
        where ledger_entries.created_at >= ${before} and ledger_entries.id = coalesce(
          (select bookings.entry_id from bookings where bookings.number = log.entry_id),
          log.entry_id
        )
      )
      order by created_at, id limit ${sql.lit(batchRows)}
      ${/* Another process may be deleting at the same time. */ lockFor(engine)}
    )`.execute(write);
  return Number(numAffectedRows);
}

const lockFor = (engine: Engine) => sql.raw(engine === 'sqlite' ? '' : 'for update skip locked');
