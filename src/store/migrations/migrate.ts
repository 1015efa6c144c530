import { strict as assert } from 'node:assert';
import { type Kysely, sql } from 'kysely';
import { failureCode } from '../../core/errors.ts';
import type { Engine, StoreTransaction } from '../database.ts';
import { storeError } from '../errors.ts';
import type { Schema } from '../schema.ts';
import { tenantsAndLedger } from './0001-tenants-and-ledger.ts';
import { requestLog } from './0002-request-log.ts';
import { byokCredentials } from './0003-byok-credentials.ts';
import { idempotency } from './0004-idempotency.ts';
import { jobs } from './0005-jobs.ts';
import { skills } from './0006-skills.ts';
import { idempotencyBytes } from './0007-idempotency-bytes.ts';
import { logByKeyAndModel } from './0008-log-by-key-and-model.ts';
import { liveKeys } from './0009-live-keys.ts';
import { hourlyUsage } from './0010-hourly-usage.ts';
import { heldCredits } from './0011-held-credits.ts';
import { journals } from './0012-journals.ts';
import { tenantChanges } from './0013-tenant-changes.ts';
import { keysDisabledByOperator } from './0014-keys-disabled-by-operator.ts';
import { webhookRotations } from './0015-webhook-rotations.ts';
import { runningRequests } from './0016-running-requests.ts';
import { configObjects } from './0017-config-objects.ts';
import { bookings } from './0018-bookings.ts';
import { tenantPlans } from './0019-tenant-plans.ts';
import { type Migration, sqlTypes } from './migration.ts';

/**
 * In order, without gaps. They are modules rather than SQL files, so that a compiled executable
 * includes them.
 */
export const migrations: readonly Migration[] = [
  tenantsAndLedger,
  requestLog,
  byokCredentials,
  idempotency,
  jobs,
  skills,
  idempotencyBytes,
  logByKeyAndModel,
  liveKeys,
  hourlyUsage,
  heldCredits,
  journals,
  tenantChanges,
  keysDisabledByOperator,
  webhookRotations,
  runningRequests,
  configObjects,
  bookings,
  tenantPlans,
];

/** An arbitrary number that identifies our advisory lock on Postgres. */
const migrationLock = 7_316_205_114;

/**
 * Migrates a database to this code's schema. If that fails, the database is unchanged, so that the
 * previous version still works with it and another program's database gets no stray tables.
 * Processes may run this concurrently: each takes a lock before it checks what is left to do.
 */
export async function migrate(
  write: Kysely<Schema>,
  engine: Engine,
  steps: readonly Migration[] = migrations,
): Promise<void> {
  steps.forEach((step, index) => {
    assert(step.number === index + 1, `Migration ${step.number} is out of order.`);
  });
  await write.transaction().execute((trx) => applyPending(trx, engine, steps));
}

/** Migrates as part of a larger transaction, which keeps other processes from starting. */
export async function applyPending(
  trx: StoreTransaction,
  engine: Engine,
  steps: readonly Migration[] = migrations,
): Promise<void> {
  // A SQLite transaction is exclusive from the start.
  if (engine === 'postgres') {
    await sql`select pg_advisory_xact_lock(${sql.lit(migrationLock)})`.execute(trx);
  }
  const { applied } = await migrationStatus(trx, engine, steps);
  if (applied === undefined) await createMigrationsTable(trx, engine);
  for (const { number, name, statements } of steps.slice(applied)) {
    for (const statement of statements(sqlTypes[engine])) {
      await sql.raw(statement).execute(trx).catch(rejectForeignTable);
    }
    const row = { number, name, applied_at: Date.now() };
    await trx.insertInto('migrations').values(row).execute();
  }
}

interface MigrationStatus {
  /** The number of applied migrations, or undefined if none was ever applied. */
  readonly applied: number | undefined;
  /** The number of existing migrations. */
  readonly known: number;
}

/** Reads the migration status. Rejects a database that these steps can't migrate. */
export async function migrationStatus(
  read: Kysely<Schema>,
  engine: Engine,
  steps: readonly Migration[] = migrations,
): Promise<MigrationStatus> {
  const known = steps.length;
  // Checked before creating anything: a role without CREATE can still use existing tables.
  const columns = await columnsOf(read, engine, 'migrations');
  if (columns.size === 0) return { applied: undefined, known };
  if (!columns.has('applied_at')) throw foreignTablesError();
  const applied = await appliedNumber(read);
  if (applied > known) {
    throw storeError(
      `The database is at schema ${applied}, but this version of Tollgate only supports ` +
        `schemas up to ${known}. Start the version that wrote it, or a newer one.`,
    );
  }
  if (applied > 0 && (await isPreRelease(read, engine))) {
    throw storeError(
      "The database is from a pre-release of Tollgate 0.1.0 and can't be migrated. Choose " +
        'another data_dir or database.',
    );
  }
  return { applied, known };
}

/**
 * Detects databases of pre-release versions. Their first three migrations were still being edited,
 * so they lack some columns, and a gateway could never bill with them. All of them have a column
 * that no later database has.
 */
async function isPreRelease(read: Kysely<Schema>, engine: Engine): Promise<boolean> {
  return (await columnsOf(read, engine, 'request_log')).has('operation');
}

/** Returns an empty set if there is no such table. */
export async function columnsOf(
  read: Kysely<Schema>,
  engine: Engine,
  table: keyof Schema,
): Promise<ReadonlySet<string>> {
  const queries = {
    sqlite: sql<{ name: string }>`select name from pragma_table_info(${table})`,
    // Don't look it up by its bare name, because another schema in the search path may have such a
    // table.
    postgres: sql<{ name: string }>`select attname as name from pg_attribute
      where attrelid = to_regclass(quote_ident(current_schema()) || '.' || cast(${table} as text))
        and attnum > 0 and not attisdropped`,
  };
  const { rows } = await queries[engine].execute(read);
  return new Set(rows.map(({ name }) => name));
}

/** Recognizes tables of other programs, which often have names such as `jobs` or `settings`. */
function rejectForeignTable(error: unknown): never {
  const nameExists =
    failureCode(error) === '42P07' ||
    (error instanceof Error && /^(?:table|view|index) \S+ already exists$/.test(error.message));
  throw nameExists ? foreignTablesError() : error;
}

function foreignTablesError(): Error {
  return storeError(
    'The database has tables of another program with names that Tollgate needs. Choose another ' +
      'data_dir, database, or schema.',
  );
}

async function createMigrationsTable(trx: StoreTransaction, engine: Engine): Promise<void> {
  const { integer, tableEnd } = sqlTypes[engine];
  await sql
    .raw(
      `create table migrations (
        number ${integer} primary key,
        name text not null,
        applied_at ${integer} not null
      )${tableEnd}`,
    )
    .execute(trx);
}

async function appliedNumber(read: Kysely<Schema>): Promise<number> {
  const row = await read
    .selectFrom('migrations')
    .select((eb) => eb.fn.max('number').as('current'))
    .executeTakeFirst();
  return row?.current ?? 0;
}
