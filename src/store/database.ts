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
import type { Schema } from './schema.ts';

export type Engine = 'sqlite' | 'postgres';

/** An open database. On Postgres all doors lead to one pool; on SQLite each has its thread. */
export interface Database {
  readonly engine: Engine;
  /** Plain reads outside of transactions; sees everything that was committed before. */
  readonly read: Kysely<Schema>;
  /** The same for what may take long, lists and sums: no request has to wait behind it. */
  readonly report: Kysely<Schema>;
  /** Changes and transactions. */
  readonly write: Kysely<Schema>;
  /** A batch of settlements in one transaction; on SQLite in the writer's thread. */
  commitBatch(batch: Batch): Promise<readonly Booked[]>;
  /** Rejects while the database does not answer. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

export type StoreTransaction = Transaction<Schema>;

/** The base of every class of queries. */
export abstract class SqlRepository {
  protected readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }
}

/** All of the work is kept, or none of it. */
export function inTransaction<T>(
  { write }: Database,
  work: (trx: StoreTransaction) => Promise<T>,
): Promise<T> {
  return write.transaction().execute(work);
}

/** Calls that may wait for one database at once; more means that it is stuck, not busy. */
export const waitingCallsMax = 1_000;

/** How long a call waits for its turn before the caller hears that the database is too busy. */
export const callWaitMs = 5_000;

/** SQL that queries of several files share. */

/** What a row of the request log or of the daily sums was charged: its four fees together. */
export const charged = sql<number>`(${sql.raw(feeNames.join(' + '))})`;

/** Names as bytes, whatever language the server sorts by: every list has the same order. */
export function byBytes(column: string, engine: Engine): RawBuilder<string> {
  return engine === 'sqlite' ? sql.ref(column) : sql`${sql.ref(column)} collate "C"`;
}

/**
 * Many rows with one statement text, whatever their number: building and compiling a multi-row
 * list costs several times the work itself. SQLite runs the prepared statement once per row in its
 * thread; Postgres takes all rows as one JSON parameter and reads the types from the table.
 */

type Row = Readonly<Record<string, unknown>>;
type Table = keyof Schema;
export type Column<T extends Table> = keyof Insertable<Schema[T]> & string;

interface Inserts<T extends Table> {
  readonly table: T;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly Insertable<Schema[T]>[];
  /** What happens to a row that is there already: an `on conflict` clause. */
  readonly conflict?: string;
  /** The rows bring their own ids, which Postgres, unlike SQLite, takes only when told to. */
  readonly explicitIds?: true;
}

export async function insertRows<T extends Table>(
  trx: StoreTransaction,
  engine: Engine,
  { table, columns, rows, conflict = '', explicitIds }: Inserts<T>,
): Promise<void> {
  if (rows.length === 0) return;
  const names = columns.map((column) => `"${column}"`).join(', ');
  const placeholders = columns.map(() => '?').join(', ');
  const idClause = explicitIds ? 'overriding system value ' : '';
  await runForRows(trx, engine, rows, columns, {
    sqlite: `insert into "${table}" (${names}) values (${placeholders}) ${conflict}`,
    postgres:
      `insert into "${table}" (${names}) ${idClause}` +
      `select ${names} from json_populate_recordset(null::"${table}", $1) ${conflict}`,
  });
}

interface Updates<T extends Table> {
  readonly table: T;
  /** The columns by which a row is found. */
  readonly keys: readonly Column<T>[];
  /** The columns that are set; every row brings its keys and all of these. */
  readonly columns: readonly Column<T>[];
  readonly rows: readonly Updateable<Schema[T]>[];
}

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
  const sourceColumn = (name: string) => `given."${name}"`;
  await runForRows(trx, engine, rows, [...columns, ...keys], {
    sqlite: `update "${table}" set ${assignments(placeholder)} where ${conditions(placeholder)}`,
    postgres:
      `update "${table}" set ${assignments(sourceColumn)} ` +
      `from json_populate_recordset(null::"${table}", $1) given where ${conditions(sourceColumn)}`,
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
