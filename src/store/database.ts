import {
  CompiledQuery,
  type Insertable,
  type Kysely,
  type RawBuilder,
  sql,
  type Transaction,
  type Updateable,
} from 'kysely';
import type { Batch, Booked } from '../money/ledger.ts';
import { feeNames } from '../money/price/fee-kinds.ts';
import type { Period } from '../records/period.ts';
import type { Schema } from './schema.ts';

export type Engine = 'sqlite' | 'postgres';

/** A database opened for reading only. */
export interface ReadOnlyDatabase {
  readonly engine: Engine;
  /** Plain reads outside of transactions. They see everything that was committed before them. */
  readonly read: Kysely<Schema>;
  /** Rejects while the database doesn't respond. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

/** An open database. On Postgres all queries share one pool; on SQLite each kind has a thread. */
export interface Database extends ReadOnlyDatabase {
  /**
   * For reads that can take long, such as lists and sums, so that no request has to wait for them.
   */
  readonly report: Kysely<Schema>;
  /** Changes and transactions. */
  readonly write: Kysely<Schema>;
  /** Commits a batch of settlements in one transaction; on SQLite in the writer's thread. */
  commitBatch(batch: Batch): Promise<readonly Booked[]>;
  /** Only on Postgres. */
  readonly logPartitions?: LogPartitions;
}

/** A part of the request log for a period, in a table of its own. */
export interface LogPartition extends Period {
  readonly name: string;
  /** Contains the requests that no other partition is for. */
  readonly isDefault: boolean;
  /** Whether this user may remove it. */
  readonly isOwned: boolean;
}

/** The partitions of the request log. */
export interface LogPartitions {
  /** Returns them by time, or undefined if the log isn't partitioned yet. */
  list(): Promise<readonly LogPartition[] | undefined>;
  /**
   * Partitions the log if it isn't partitioned yet, and creates partitions ahead of time. Returns
   * true if the log is partitioned only now.
   */
  prepare(now: () => number, keepDays: number | null): Promise<boolean>;
  /** Removes the partitions whose requests and charges are all older. Returns their rows. */
  removeBefore(time: number): Promise<number>;
  /** Ends a run after its current step. */
  stop(): void;
}

export type StoreTransaction = Transaction<Schema>;

/** Base class of the repositories. */
export abstract class SqlRepository {
  protected readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }
}

/** Commits all of the work or none of it. */
export function inTransaction<T>(
  { write }: Database,
  work: (trx: StoreTransaction) => Promise<T>,
): Promise<T> {
  return write.transaction().execute(work);
}

/** Calls that may queue for one database. If more are waiting, it is stuck rather than busy. */
export const waitingCallsMax = 1_000;

/** How long a call waits in the queue before it fails with "the database is too busy". */
export const callWaitMs = 5_000;

/** The total charge of a row of the request log or the daily sums: the sum of its fees. */
export const charged = sql<number>`(${sql.raw(feeNames.join(' + '))})`;

/** Sorts names by their bytes, so that lists have the same order whatever the server's locale. */
export function byBytes(column: string, engine: Engine): RawBuilder<string> {
  return engine === 'sqlite' ? sql.ref(column) : sql`${sql.ref(column)} collate "C"`;
}

type Row = Readonly<Record<string, unknown>>;
type Table = keyof Schema;
export type Column<T extends Table> = keyof Insertable<Schema[T]> & string;

interface Inserts<T extends Table> {
  readonly table: T;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly Insertable<Schema[T]>[];
  /** An `on conflict` clause for rows that already exist. */
  readonly conflict?: string;
}

/**
 * Inserts any number of rows with the same statement text, because building and compiling a
 * multi-row list would take several times as long as the insert itself. SQLite runs the prepared
 * statement once per row in its thread. Postgres copies them. With a conflict clause, it takes all
 * rows as one JSON parameter instead and reads the types from the table.
 */
export async function insertRows<T extends Table>(
  trx: StoreTransaction,
  engine: Engine,
  { table, columns, rows, conflict = '' }: Inserts<T>,
): Promise<void> {
  if (rows.length === 0) return;
  const names = columns.map((column) => `"${column}"`).join(', ');
  if (engine === 'postgres' && conflict === '') {
    const copy = `copy "${table}" (${names}) from stdin`;
    await trx.executeQuery(CompiledQuery.raw(copy, [copyText(rows, columns)]));
    return;
  }
  const placeholders = columns.map(() => '?').join(', ');
  await runForRows(trx, engine, rows, columns, {
    sqlite: `insert into "${table}" (${names}) values (${placeholders}) ${conflict}`,
    postgres:
      `insert into "${table}" (${names}) ` +
      `select ${names} from json_populate_recordset(null::"${table}", $1) ${conflict}`,
  });
}

interface Updates<T extends Table> {
  readonly table: T;
  /** The columns that identify a row. */
  readonly keys: readonly Column<T>[];
  /** The columns to set. Every row has its keys and all of these. */
  readonly columns: readonly Column<T>[];
  readonly rows: readonly Updateable<Schema[T]>[];
}

/** Updates any number of rows with one statement text, as `insertRows` does. */
export async function updateRows<T extends Table>(
  trx: StoreTransaction,
  engine: Engine,
  { table, keys, columns, rows }: Updates<T>,
): Promise<void> {
  if (rows.length === 0) return;
  const assignments = (value: (name: string) => string) =>
    columns.map((name) => `"${name}" = ${value(name)}`).join(', ');
  const conditions = (value: (name: string) => string) =>
    keys.map((name) => `"${table}"."${name}" = ${value(name)}`).join(' and ');
  const placeholder = () => '?';
  const sourceColumn = (name: string) => `source."${name}"`;
  await runForRows(trx, engine, rows, [...columns, ...keys], {
    sqlite: `update "${table}" set ${assignments(placeholder)} where ${conditions(placeholder)}`,
    postgres:
      `update "${table}" set ${assignments(sourceColumn)} ` +
      `from json_populate_recordset(null::"${table}", $1) source where ${conditions(sourceColumn)}`,
  });
}

async function runForRows(
  trx: StoreTransaction,
  engine: Engine,
  rows: readonly Row[],
  columns: readonly string[],
  statements: Readonly<Record<Engine, string>>,
): Promise<void> {
  const parameters =
    engine === 'sqlite' ? cells(rows, columns) : [JSON.stringify(rows, bytesAsHex)];
  await trx.executeQuery(CompiledQuery.raw(statements[engine], parameters));
}

function cells(rows: readonly Row[], columns: readonly string[]): unknown[][] {
  return rows.map((row) => columns.map((column) => row[column] ?? null));
}

function bytesAsHex(_name: string, value: unknown): unknown {
  return value instanceof Uint8Array ? `\\x${Buffer.from(value).toString('hex')}` : value;
}

/** Writes rows in the text format of Postgres's `copy`. */
function copyText(rows: readonly Row[], columns: readonly string[]): string {
  let text = '';
  for (const row of rows) {
    let separator = '';
    for (const column of columns) {
      text += separator + copyCell(row[column]);
      separator = '\t';
    }
    text += '\n';
  }
  return text;
}

function copyCell(value: unknown): string {
  if (typeof value === 'number') return String(value);
  if (value === null || value === undefined) return '\\N';
  if (value instanceof Uint8Array) return `\\\\x${value.toHex()}`;
  const text = String(value);
  return special.test(text) ? text.replace(allSpecial, escapeSpecial) : text;
}

/** The characters that `copy` treats specially. */
const special = /[\\\t\n\r]/;
const allSpecial = /[\\\t\n\r]/g;
const escapes: Readonly<Record<string, string>> = { '\t': '\\t', '\n': '\\n', '\r': '\\r' };
const escapeSpecial = (character: string) => escapes[character] ?? '\\\\';
