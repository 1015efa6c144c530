import { CompiledQuery, type Insertable, type Updateable } from 'kysely';
import type { Engine, StoreTransaction } from '../database.ts';
import type { Schema } from '../schema.ts';

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
  readonly keepsIds?: true;
}

export async function insertRows<T extends Table>(
  change: StoreTransaction,
  engine: Engine,
  { table, columns, rows, conflict = '', keepsIds }: Inserts<T>,
): Promise<void> {
  if (rows.length === 0) return;
  const names = columns.map((column) => `"${column}"`).join(', ');
  const marks = columns.map(() => '?').join(', ');
  const numbering = keepsIds ? 'overriding system value ' : '';
  await run(change, engine, rows, columns, {
    sqlite: `insert into "${table}" (${names}) values (${marks}) ${conflict}`,
    postgres:
      `insert into "${table}" (${names}) ${numbering}` +
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
  change: StoreTransaction,
  engine: Engine,
  { table, keys, columns, rows }: Updates<T>,
): Promise<void> {
  if (rows.length === 0) return;
  const settings = (value: (name: string) => string) =>
    columns.map((name) => `"${name}" = ${value(name)}`).join(', ');
  const matching = (value: (name: string) => string) =>
    keys.map((name) => `"${table}"."${name}" = ${value(name)}`).join(' and ');
  const mark = () => '?';
  const given = (name: string) => `given."${name}"`;
  await run(change, engine, rows, [...columns, ...keys], {
    sqlite: `update "${table}" set ${settings(mark)} where ${matching(mark)}`,
    postgres:
      `update "${table}" set ${settings(given)} ` +
      `from json_populate_recordset(null::"${table}", $1) given where ${matching(given)}`,
  });
}

async function run(
  change: StoreTransaction,
  engine: Engine,
  rows: readonly Row[],
  columns: readonly string[],
  texts: Readonly<Record<Engine, string>>,
): Promise<void> {
  const parameters = engine === 'sqlite' ? cells(rows, columns) : [JSON.stringify(rows, asText)];
  await change.executeQuery(CompiledQuery.raw(texts[engine], parameters));
}

function cells(rows: readonly Row[], columns: readonly string[]): unknown[][] {
  return rows.map((row) => columns.map((column) => row[column] ?? null));
}

function asText(_name: string, value: unknown): unknown {
  return value instanceof Uint8Array ? `\\x${Buffer.from(value).toString('hex')}` : value;
}
