import { CompiledQuery, type Insertable } from 'kysely';
import type { Engine, StoreTransaction } from './database.ts';
import type { Schema } from './schema.ts';

/**
 * Inserts many rows with one statement text, whatever their number: building and compiling a
 * multi-row `values` list costs several times the insert itself.
 */
export async function insertRows<Table extends keyof Schema & string>(
  change: StoreTransaction,
  engine: Engine,
  table: Table,
  columns: readonly (keyof Insertable<Schema[Table]> & string)[],
  rows: readonly Insertable<Schema[Table]>[],
): Promise<void> {
  if (rows.length === 0) return;
  const names = columns.map((column) => `"${column}"`).join(', ');
  if (engine === 'sqlite') {
    const marks = columns.map(() => '?').join(', ');
    const text = `insert into "${table}" (${names}) values (${marks})`;
    const lists = rows.map((row) => columns.map((column) => row[column] ?? null));
    await change.executeQuery(CompiledQuery.raw(text, lists));
    return;
  }
  // Postgres reads the types from the table itself; one parameter instead of one per cell.
  const text =
    `insert into "${table}" (${names}) ` +
    `select ${names} from json_populate_recordset(null::"${table}", $1)`;
  await change.executeQuery(CompiledQuery.raw(text, [JSON.stringify(rows, asPostgresText)]));
}

function asPostgresText(_name: string, value: unknown): unknown {
  return value instanceof Uint8Array ? `\\x${Buffer.from(value).toString('hex')}` : value;
}
