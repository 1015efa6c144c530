import type { Engine } from '../database.ts';

/** One step of the schema. Once released it is never edited; the next change is the next number. */
export interface Migration {
  readonly number: number;
  readonly name: string;
  statements(types: SqlTypes): readonly string[];
}

/** The few words in which the engines' table definitions differ. */
export interface SqlTypes {
  readonly engine: Engine;
  /** A number that the database gives out, growing. */
  readonly rowId: string;
  readonly integer: string;
  readonly flag: string;
  readonly bytes: string;
  /** Text that is compared byte by byte, so that both engines list rows in the same order. */
  readonly id: string;
  /** Ends a table's definition: SQLite checks types only in a table that asks for it. */
  readonly tableEnd: string;
}

export const sqlTypes: Record<Engine, SqlTypes> = {
  sqlite: {
    engine: 'sqlite',
    rowId: 'integer primary key',
    integer: 'integer',
    flag: 'integer',
    bytes: 'blob',
    id: 'text',
    tableEnd: ' strict',
  },
  postgres: {
    engine: 'postgres',
    rowId: 'bigint generated always as identity primary key',
    integer: 'bigint',
    flag: 'smallint',
    bytes: 'bytea',
    id: 'text collate "C"',
    tableEnd: '',
  },
};
