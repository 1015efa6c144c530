import { Kysely } from 'kysely';
import type { Booked } from '../../ledger/ledger-store.ts';
import { batchText } from '../../ledger/slip.ts';
import { type Database, turnWaitMs, waitingCallsMax } from '../database.ts';
import type { Schema } from '../schema.ts';
import { Turns } from '../turns.ts';
import { sqliteDialect } from './dialect.ts';
import { fileFailure } from './file-failure.ts';
import { SqliteThread } from './thread.ts';

/** Opens or creates a database file: one thread for changes, one for plain reads. */
export async function openSqlite(path: string): Promise<Database> {
  const writer = await openThread(path, 'writer');
  const reader = await openThread(path, 'reader').catch(async (thrown: unknown) => {
    await writer.close();
    throw thrown;
  });
  const turns = new Turns({ waitersMax: waitingCallsMax, waitMs: turnWaitMs });
  return {
    engine: 'sqlite',
    read: new Kysely<Schema>({ dialect: sqliteDialect(reader, undefined) }),
    write: new Kysely<Schema>({ dialect: sqliteDialect(writer, turns) }),
    book: async (batch) => {
      await turns.take();
      try {
        const { rows } = await writer.ask({ kind: 'book', batch: batchText(batch) });
        return rows as Booked[];
      } finally {
        turns.give();
      }
    },
    ping: async () => {
      await Promise.all([ask(reader), ask(writer)]);
    },
    close: async () => {
      // The writer goes last: the last connection to leave folds the log back into the file.
      await reader.close();
      await writer.close();
    },
  };
}

/**
 * A file that is there, only to look into it beside whoever writes: SQLite refuses every change.
 */
export async function openSqliteToLook(path: string): Promise<Database> {
  const reader = await openThread(path, 'reader');
  const only = new Kysely<Schema>({ dialect: sqliteDialect(reader, undefined) });
  return {
    engine: 'sqlite',
    read: only,
    write: only,
    book: () => Promise.reject(new Error('The database is open only to look into it.')),
    ping: () => ask(reader),
    close: () => reader.close(),
  };
}

async function ask(thread: SqliteThread): Promise<void> {
  await thread.ask({ kind: 'run', sql: 'select 1', parameters: [], inTransaction: false });
}

async function openThread(path: string, role: 'writer' | 'reader'): Promise<SqliteThread> {
  try {
    return await SqliteThread.open(path, role);
  } catch (thrown) {
    throw fileFailure(path, thrown);
  }
}
