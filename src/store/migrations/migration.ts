import type { Engine } from '../database.ts';

/**
 * One step of the schema. A released migration is never edited. The next change gets the next
 * number.
 */
export interface Migration {
  readonly number: number;
  readonly name: string;
  statements(types: SqlTypes): readonly string[];
}

/** The SQL that differs between SQLite's and Postgres's table definitions. */
export interface SqlTypes {
  readonly engine: Engine;
  /** An increasing number that the database assigns. */
  readonly rowId: string;
  readonly integer: string;
  readonly flag: string;
  readonly bytes: string;
  /** Text compared byte by byte, so that both databases sort rows alike. */
  readonly id: string;
  /** Suffix of a table definition: SQLite checks types only in strict tables. */
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
