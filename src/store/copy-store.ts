import { type Insertable, sql } from 'kysely';
import { failureMessage } from '../core/errors.ts';
import type { ReadOnlyDatabase, StoreTransaction } from './database.ts';
import { type Column, insertRows } from './database.ts';
import { storeError } from './errors.ts';
import { applyPending, columnsOf, migrationStatus } from './migrations/migrate.ts';
import { copiedTables, type Schema, type Table } from './schema.ts';
import { deploymentSetting } from './settings.ts';

type Row<T extends Table> = Insertable<Schema[T]> & { readonly position: number };

/**
 * Limits of a page in memory. A page may exceed them by one row, such as an answer of up to 32 MB.
 */
const pageRowsMax = 1_000;
const pageBytesMax = 8 * 1024 * 1024;

/** Rows between two progress reports of a long table. */
const progressRows = 100_000;

/** The number of rows of each table. */
export type Rows = ReadonlyMap<string, number>;

interface StoreCopy {
  readonly source: ReadOnlyDatabase;
  /** The URL of the target Postgres database. */
  readonly url: string;
  readonly now: number;
  /** Called during a long table with the number of rows copied so far. */
  onProgress(table: string, rows: number, total: number): void;
}

/**
 * Copies an idle SQLite store into an empty Postgres database in one transaction, so that a failure
 * leaves the target empty. The source is only read.
 */
export async function copyStore({ source, url, now, onProgress }: StoreCopy): Promise<Rows> {
  const version = await versionOf(source);
  await requireIdle(source, now);
  // Count before the transaction starts, because the server would end a transaction that is idle
  // while a large file is being counted.
  const total = new Map<string, number>();
  for (const table of copiedTables) total.set(table, await countOf(source, table));
  const { withMigrationConnection } = await import('./postgres/postgres.ts');
  const copy = async (trx: StoreTransaction) => {
    await requireEmpty(trx);
    for (const table of copiedTables) {
      const rows = total.get(table) ?? 0;
      const onRows = (copied: number) => onProgress(table, copied, rows);
      const copied = await copyTable(source, trx, table, onRows).catch((error: unknown) => {
        const reason = failureMessage(error);
        throw copyError(`The table ${table} can't be copied: ${reason.replace(/\.$/, '')}.`);
      });
      if (copied !== rows)
        throw copyError(`Only ${copied} of ${rows} rows in ${table} were copied.`);
    }
    await finishCopy(trx);
    if ((await versionOf(source)) === version) return total;
    throw copyError('The store changed during the copy. Stop everything that uses it.');
  };
  const failing = "couldn't import the store";
  return withMigrationConnection(url, (db) => db.transaction().execute(copy), failing);
}

function copyError(reason: string): Error {
  return storeError(`${reason} Nothing was copied.`);
}

/** Returns a number that changes whenever another connection, in any process, has written. */
async function versionOf({ read }: ReadOnlyDatabase): Promise<number | undefined> {
  const { rows } = await sql<{ data_version: number }>`pragma data_version`.execute(read);
  return rows[0]?.data_version;
}

async function countOf({ read }: ReadOnlyDatabase, table: Table): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from ${sql.table(table)}`.execute(read);
  return rows[0]?.count ?? 0;
}

/**
 * Rejects a store that is in use. Leases reveal even a gateway that keeps its journals elsewhere.
 */
async function requireIdle({ read }: ReadOnlyDatabase, now: number): Promise<void> {
  const { applied, known } = await migrationStatus(read, 'sqlite');
  if (applied !== known) {
    throw copyError(
      'The store has tables of an older version. Start a gateway on it once to migrate it.',
    );
  }
  const isAlive = read.selectFrom('leases').where('credits', '>', 0).where('until', '>=', now);
  const lease = await isAlive.select('until').executeTakeFirst();
  if (!lease) return;
  throw copyError(
    'A gateway holds a lease on credits of this store. Stop it; after a crash, wait 2 minutes.',
  );
}

/**
 * Rejects a target that has rows. Also creates the tables, under a lock that keeps gateways from
 * starting meanwhile.
 */
async function requireEmpty(trx: StoreTransaction): Promise<void> {
  const { applied = 0, known } = await migrationStatus(trx, 'postgres');
  // Don't migrate a database with older tables, because its own gateways may be running.
  let filled = applied > 0 && applied < known ? 'migrations' : undefined;
  if (!filled) await applyPending(trx, 'postgres');
  for (const table of filled ? [] : copiedTables) {
    const { rows } = await sql`select 1 from ${sql.table(table)} limit 1`.execute(trx);
    if (rows.length > 0) filled ??= table;
  }
  if (!filled) return;
  throw copyError(
    `The target database isn't empty: its table ${filled} has rows. ` +
      "Create a new one, and don't start a gateway on it first.",
  );
}

/** Returns the number of copied rows. */
async function copyTable<T extends Table>(
  source: ReadOnlyDatabase,
  trx: StoreTransaction,
  table: T,
  onRows: (copied: number) => void,
): Promise<number> {
  const columns = [...(await columnsOf(source.read, 'sqlite', table))] as Column<T>[];
  let [copied, reported, last] = [0, 0, Number.MIN_SAFE_INTEGER];
  for (;;) {
    const rows = await rowsAfter(source, table, columns, last);
    const end = rows.at(-1);
    if (!end) return copied;
    for (const row of rows) requireText(row);
    await insertRows(trx, 'postgres', { table, columns, rows });
    last = end.position;
    copied += rows.length;
    if (copied - reported < progressRows) continue;
    reported = copied;
    onRows(copied);
  }
}

/**
 * Returns the next page by rowid, which every table has. Computes row sizes without reading the
 * texts.
 */
async function rowsAfter<T extends Table>(
  { read }: ReadOnlyDatabase,
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

/** Rejects text that Postgres can't store. Inexact numbers were rejected when they were read. */
function requireText(row: Readonly<Record<string, unknown>>): void {
  for (const [column, value] of Object.entries(row)) {
    if (typeof value !== 'string' || !value.includes('\0')) continue;
    const where = `${column} of the row with rowid ${row.position}`;
    throw new Error(`${where} has a NUL character, which Postgres can't store`);
  }
}

/** Makes the copy an independent store that is ready for new rows. */
async function finishCopy(trx: StoreTransaction): Promise<void> {
  await trx.updateTable('accounts').set({ leased: 0 }).where('leased', '<>', 0).execute();
  // The copy gets a new deployment ID, because journals of one store must not be replayed into the
  // other.
  await trx.deleteFrom('settings').where('name', '=', deploymentSetting).execute();
  const { rows } = await sql<{ table: Table; column: string }>`
    select table_name as table, column_name as column from information_schema.columns
    where table_schema = current_schema() and is_identity = 'YES'
      and table_name in (${sql.join(copiedTables)})`.execute(trx);
  for (const { table, column } of rows) {
    const highest = sql`max(${sql.ref(column)})`;
    await sql`select setval(pg_get_serial_sequence(${table}, ${column}), ${highest})
      from ${sql.table(table)} having ${highest} is not null`.execute(trx);
  }
  // Without statistics, the first queries are planned badly and `verify` scans whole tables.
  await sql`analyze ${sql.join(copiedTables.map((table) => sql.table(table)))}`.execute(trx);
}
