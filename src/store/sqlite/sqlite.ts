import { Kysely } from 'kysely';
import type { Booked } from '../../ledger/ledger-store.ts';
import { batchText } from '../../ledger/slip.ts';
import { type Database, turnWaitMs, waitingCallsMax } from '../database.ts';
import type { Schema } from '../schema.ts';
import { Turns } from '../turns.ts';
import { sqliteDialect } from './dialect.ts';
import { fileFailure } from './file-failure.ts';
import { assertSameFile, identityOf } from './file-identity.ts';
import type { Outcome, Question } from './messages.ts';
import { SqliteThread } from './thread.ts';

/** Opens or creates a database file: one thread for changes, and two for plain reads. */
export async function openSqlite(path: string): Promise<Database> {
  const writer = new LastingThread(path, 'writer');
  const reader = new LastingThread(path, 'reader');
  await writer.open();
  await reader.open().catch(async (thrown: unknown) => {
    await writer.close();
    throw thrown;
  });
  // Opened by the first who asks: most processes are never asked for a report.
  const reports = new LastingThread(path, 'reader');
  const turns = new Turns({ waitersMax: waitingCallsMax, waitMs: turnWaitMs });
  return {
    engine: 'sqlite',
    read: new Kysely<Schema>({ dialect: sqliteDialect(reader, undefined) }),
    report: new Kysely<Schema>({ dialect: sqliteDialect(reports, undefined) }),
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
      await reports.close();
      await reader.close();
      await writer.close();
    },
  };
}

/**
 * A thread that is opened by the first who asks, and again by the next after it has ended by
 * itself: SQLite undoes what was begun there, and the process needs its books.
 */
class LastingThread {
  readonly #path: string;
  readonly #role: 'writer' | 'reader';
  #thread: Promise<SqliteThread> | undefined;
  /** Known once the file was opened. */
  #identity: string | undefined;
  #isClosed = false;

  constructor(path: string, role: 'writer' | 'reader') {
    this.#path = path;
    this.#role = role;
  }

  open(): Promise<SqliteThread> {
    if (this.#thread !== undefined) return this.#thread;
    const forget = () => {
      if (this.#thread === thread) this.#thread = undefined;
    };
    const thread = this.#begin(forget).catch((thrown: unknown) => {
      // Opening can fail when too many files are open, for example: the next question tries again.
      forget();
      throw this.#identity === undefined ? fileFailure(this.#path, thrown) : thrown;
    });
    this.#thread = thread;
    return thread;
  }

  async #begin(onEnd: () => void): Promise<SqliteThread> {
    if (this.#identity !== undefined) assertSameFile(this.#path, this.#identity);
    const thread = await SqliteThread.open(this.#path, this.#role, onEnd);
    this.#identity ??= identityOf(this.#path);
    return thread;
  }

  async ask(question: Question): Promise<Outcome> {
    if (this.#isClosed) throw new Error('The database is closed.');
    return (await this.open()).ask(question);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const thread = await this.#thread?.catch(() => undefined);
    await thread?.close();
  }
}

/** Opens an existing file to read beside the process that writes: SQLite refuses all changes. */
export async function openSqliteToLook(path: string): Promise<Database> {
  const reader = new LastingThread(path, 'reader');
  await reader.open();
  const only = new Kysely<Schema>({ dialect: sqliteDialect(reader, undefined) });
  return {
    engine: 'sqlite',
    read: only,
    report: only,
    write: only,
    book: () => Promise.reject(new Error('The database is open only to look into it.')),
    ping: () => ask(reader),
    close: () => reader.close(),
  };
}

async function ask(thread: LastingThread): Promise<void> {
  await thread.ask({ kind: 'run', sql: 'select 1', parameters: [], inTransaction: false });
}
