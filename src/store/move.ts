import { type Insertable, sql } from 'kysely';
import { failureMessage } from '../core/errors.ts';
import type { Database, StoreTransaction } from './database.ts';
import { type Column, insertRows } from './database.ts';
import { storeError } from './errors.ts';
import { applyPending, columnsOf, migrationStatus } from './migrations/migrate.ts';
import type { Schema } from './schema.ts';
import { deploymentSetting } from './settings.ts';

type Table = keyof Schema;
type Row<T extends Table> = Insertable<Schema[T]> & { readonly position: number };

/** Every table, those that others refer to first, and whether its rows come along. */
const isMoved: Readonly<Record<Table, boolean>> = {
  tenants: true,
  api_keys: true,
  accounts: true,
  // Leases are of processes that have ended: what they held goes back to its accounts.
  leases: false,
  ledger_entries: true,
  request_log: true,
  usage_daily: true,
  byok_credentials: true,
  idempotency_claims: true,
  idempotency_bytes: true,
  skills: true,
  settings: true,
  jobs: true,
  job_turns: true,
  job_pieces: true,
  job_objects: true,
  webhooks: true,
  // Every database counts its own changes and migrations.
  changes: false,
  migrations: false,
};
export const allTables = Object.keys(isMoved) as readonly Table[];
const tables = allTables.filter((name) => isMoved[name]);

/** At most this much of a table is in memory, plus one row, which may be an answer of 32 MB. */
const pageRowsMax = 1_000;
const pageBytesMax = 8 * 1024 * 1024;

/** Rows after which a long table is told about again. */
const progressRows = 100_000;

/** How many rows each table has. */
export type Rows = ReadonlyMap<string, number>;

interface Move {
  readonly source: Database;
  /** The address of the Postgres that the store moves to. */
  readonly url: string;
  readonly now: number;
  /** Called now and then during a long table, with the rows copied so far. */
  onProgress(table: string, rows: number, total: number): void;
}

/**
 * Copies a SQLite store that nobody uses into an empty Postgres, in one transaction: all of it is
 * there in the end, or the database is as empty as before. The source is only read.
 */
export async function moveStore({ source, url, now, onProgress }: Move): Promise<Rows> {
  const version = await versionOf(source);
  await requireIdle(source, now);
  // Before the transaction: a server ends one that is idle while a large file is counted.
  const total = new Map<string, number>();
  for (const table of tables) total.set(table, await countOf(source, table));
  const { withMigrationConnection } = await import('./postgres/postgres.ts');
  const copy = async (trx: StoreTransaction) => {
    await requireEmpty(trx);
    for (const table of tables) {
      const rows = total.get(table) ?? 0;
      const onRows = (moved: number) => onProgress(table, moved, rows);
      const moved = await moveTable(source, trx, table, onRows).catch((error: unknown) => {
        const reason = failureMessage(error);
        throw moveRefused(`The table ${table} cannot be moved: ${reason.replace(/\.$/, '')}.`);
      });
      if (moved !== rows) throw moveRefused(`Of ${rows} rows in ${table}, ${moved} were copied.`);
    }
    await finishCopy(trx);
    if ((await versionOf(source)) === version) return total;
    throw moveRefused('The store was changed while it was copied: stop what uses it.');
  };
  const failing = 'did not take the store';
  return withMigrationConnection(url, (db) => db.transaction().execute(copy), failing);
}

function moveRefused(reason: string): Error {
  return storeError(`${reason} Nothing was moved.`);
}

/** A number that changes as soon as anybody else, in whatever process, has changed the file. */
async function versionOf({ read }: Database): Promise<number | undefined> {
  const { rows } = await sql<{ data_version: number }>`pragma data_version`.execute(read);
  return rows[0]?.data_version;
}

async function countOf({ read }: Database, table: Table): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from ${sql.table(table)}`.execute(read);
  return rows[0]?.count ?? 0;
}

/** A gateway with its journals elsewhere shows by its leases, which outlive it by two minutes. */
async function requireIdle({ read }: Database, now: number): Promise<void> {
  const { applied, known } = await migrationStatus(read, 'sqlite');
  if (applied !== known) {
    throw moveRefused('The store has older tables: start a gateway on it once, which renews them.');
  }
  const isAlive = read.selectFrom('leases').where('credits', '>', 0).where('until', '>=', now);
  const lease = await isAlive.select('until').executeTakeFirst();
  if (!lease) return;
  throw moveRefused(
    'A gateway has credits of this store on lease: stop it; two minutes after a crash, try again.',
  );
}

/** Also makes the tables, under a lock that keeps gateways from starting there meanwhile. */
async function requireEmpty(trx: StoreTransaction): Promise<void> {
  const { applied = 0, known } = await migrationStatus(trx, 'postgres');
  // A database with older tables is refused before it is migrated: its own gateways may be serving.
  let filled = applied > 0 && applied < known ? 'migrations' : undefined;
  if (!filled) await applyPending(trx, 'postgres');
  for (const table of filled ? [] : tables) {
    const { rows } = await sql`select 1 from ${sql.table(table)} limit 1`.execute(trx);
    if (rows.length > 0) filled ??= table;
  }
  if (!filled) return;
  throw moveRefused(
    `The database to move to is not empty: there are rows in its table ${filled}. ` +
      'Make a new one, and start no gateway on it before.',
  );
}

/** Answers how many rows it copied. */
async function moveTable<T extends Table>(
  source: Database,
  trx: StoreTransaction,
  table: T,
  onRows: (moved: number) => void,
): Promise<number> {
  const columns = [...(await columnsOf(source.read, 'sqlite', table))] as Column<T>[];
  let [moved, reported, last] = [0, 0, Number.MIN_SAFE_INTEGER];
  for (;;) {
    const rows = await rowsAfter(source, table, columns, last);
    const end = rows.at(-1);
    if (!end) return moved;
    for (const row of rows) requireText(row);
    await insertRows(trx, 'postgres', { table, columns, rows, explicitIds: true });
    last = end.position;
    moved += rows.length;
    if (moved - reported < progressRows) continue;
    reported = moved;
    onRows(moved);
  }
}

/** In the order of their row ids, which every table has. Sizes are read without the texts. */
async function rowsAfter<T extends Table>(
  { read }: Database,
  table: T,
  columns: readonly Column<T>[],
  last: number,
): Promise<readonly Row<T>[]> {
  const bytes = sql.raw(columns.map((name) => `ifnull(octet_length("${name}"), 0)`).join(' + '));
  const from = sql.table(table);
  const { rows } = await sql<Row<T>>`
    select rowid as position, * from ${from} where rowid > ${last} and rowid <= (
      select max(position) from (
        select rowid as position, sum(${bytes}) over (order by rowid) - (${bytes}) as before
        from ${from} where rowid > ${last} order by rowid limit ${sql.lit(pageRowsMax)}
      ) where before < ${sql.lit(pageBytesMax)}
    ) order by rowid`.execute(read);
  return rows;
}

/** Refuses text that Postgres cannot keep; inexact numbers were refused when they were read. */
function requireText(row: Readonly<Record<string, unknown>>): void {
  for (const [column, value] of Object.entries(row)) {
    if (typeof value !== 'string' || !value.includes('\0')) continue;
    const where = `${column} of the row with rowid ${row.position}`;
    throw new Error(`${where} has a NUL character, which Postgres cannot keep`);
  }
}

/** What makes the copy a store of its own, and ready for the next row. */
async function finishCopy(trx: StoreTransaction): Promise<void> {
  await trx.updateTable('accounts').set({ leased: 0 }).where('leased', '<>', 0).execute();
  // The copy gets a new name: journals of the one store must not be booked in the other.
  await trx.deleteFrom('settings').where('name', '=', deploymentSetting).execute();
  const { rows } = await sql<{ table: Table; column: string }>`
    select table_name as table, column_name as column from information_schema.columns
    where table_schema = current_schema() and is_identity = 'YES'
      and table_name in (${sql.join(tables)})`.execute(trx);
  for (const { table, column } of rows) {
    const highest = sql`max(${sql.ref(column)})`;
    await sql`select setval(pg_get_serial_sequence(${table}, ${column}), ${highest})
      from ${sql.table(table)} having ${highest} is not null`.execute(trx);
  }
  // Without it the first queries go by guesses, and `verify` reads whole tables for each page.
  await sql`analyze ${sql.join(tables.map((table) => sql.table(table)))}`.execute(trx);
}
