import { strict as assert } from 'node:assert';
import { Kysely } from 'kysely';
import { type Booked, batchJson } from '../../money/ledger.ts';
import { BoundedLock, tooBusy } from '../call-queue.ts';
import { callWaitMs, type Database, waitingCallsMax } from '../database.ts';
import type { Schema } from '../schema.ts';
import { assertSameFile, fileFailure, identityOf, statementMessage } from './database-file.ts';
import { type Outcome, sqliteDialect, type WorkerReply, type WorkerRequest } from './dialect.ts';

/** Opens or creates a database file: one thread for changes, and two for plain reads. */
export async function openSqlite(path: string): Promise<Database> {
  const writer = new ReopeningThread(path, 'writer');
  const reader = new ReopeningThread(path, 'reader');
  await writer.open();
  await reader.open().catch(async (error: unknown) => {
    await writer.close();
    throw error;
  });
  // Opened by the first who asks: most processes are never asked for a report.
  const reports = new ReopeningThread(path, 'reader');
  const lock = new BoundedLock({ waitersMax: waitingCallsMax, waitMs: callWaitMs });
  return {
    engine: 'sqlite',
    read: new Kysely<Schema>({ dialect: sqliteDialect(reader, undefined) }),
    report: new Kysely<Schema>({ dialect: sqliteDialect(reports, undefined) }),
    write: new Kysely<Schema>({ dialect: sqliteDialect(writer, lock) }),
    commitBatch: async (batch) => {
      await lock.acquire();
      try {
        const { rows } = await writer.send({ kind: 'book', batch: batchJson(batch) });
        return rows as Booked[];
      } finally {
        lock.release();
      }
    },
    ping: async () => {
      await Promise.all([pingThread(reader), pingThread(writer)]);
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
class ReopeningThread {
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
    const clearThread = () => {
      if (this.#thread === thread) this.#thread = undefined;
    };
    const thread = this.#start(clearThread).catch((error: unknown) => {
      // Opening can fail when too many files are open, for example: the next question tries again.
      clearThread();
      throw this.#identity === undefined ? fileFailure(this.#path, error) : error;
    });
    this.#thread = thread;
    return thread;
  }

  async #start(onEnd: () => void): Promise<SqliteThread> {
    if (this.#identity !== undefined) assertSameFile(this.#path, this.#identity);
    const thread = await SqliteThread.open(this.#path, this.#role, onEnd);
    this.#identity ??= identityOf(this.#path);
    return thread;
  }

  async send(request: WorkerRequest): Promise<Outcome> {
    if (this.#isClosed) throw new Error('The database is closed.');
    return (await this.open()).send(request);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const thread = await this.#thread?.catch(() => undefined);
    await thread?.close();
  }
}

/** Opens an existing file to read beside the process that writes: SQLite refuses all changes. */
export async function openSqliteReadOnly(path: string): Promise<Database> {
  const reader = new ReopeningThread(path, 'reader');
  await reader.open();
  const readOnly = new Kysely<Schema>({ dialect: sqliteDialect(reader, undefined) });
  return {
    engine: 'sqlite',
    read: readOnly,
    report: readOnly,
    write: readOnly,
    commitBatch: () => Promise.reject(new Error('The database is open only to look into it.')),
    ping: () => pingThread(reader),
    close: () => reader.close(),
  };
}

async function pingThread(thread: ReopeningThread): Promise<void> {
  await thread.send({ kind: 'run', sql: 'select 1', parameters: [], inTransaction: false });
}

interface PendingRequest {
  readonly resolve: (outcome: Outcome) => void;
  readonly reject: (error: Error) => void;
}

/** The main thread's end of one SQLite worker: questions go out, answers come back in order. */
class SqliteThread {
  readonly #path: string;
  readonly #worker: Worker;
  readonly #pending: PendingRequest[] = [];
  readonly #onEnd: () => void;
  #ended: Error | undefined;

  private constructor(path: string, onEnd: () => void) {
    this.#path = path;
    this.#onEnd = onEnd;
    this.#worker = new Worker(workerUrl());
    this.#worker.onmessage = (message: MessageEvent<WorkerReply>) => this.#settle(message.data);
    this.#worker.onerror = (event) => {
      this.#end(new Error(`The SQLite thread failed: ${event.message}`));
    };
    this.#worker.addEventListener('close', () => {
      this.#end(new Error('The SQLite thread has ended.'));
    });
  }

  static async open(
    path: string,
    role: 'writer' | 'reader',
    onEnd: () => void,
  ): Promise<SqliteThread> {
    const thread = new SqliteThread(path, onEnd);
    try {
      await thread.send({ kind: 'open', path, role });
    } catch (error) {
      thread.#worker.terminate();
      throw error;
    }
    return thread;
  }

  send(request: WorkerRequest): Promise<Outcome> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    if (this.#pending.length >= waitingCallsMax) {
      return Promise.reject(tooBusy(`${this.#pending.length} calls are waiting already`));
    }
    return new Promise((resolve, reject) => {
      this.#pending.push({ resolve, reject });
      this.#worker.postMessage(request);
    });
  }

  async close(): Promise<void> {
    if (this.#ended !== undefined) return;
    const closed = this.send({ kind: 'close' });
    this.#ended = new Error('The database is closed.');
    try {
      await closed;
    } finally {
      this.#worker.terminate();
    }
  }

  #settle(reply: WorkerReply): void {
    const pending = this.#pending.shift();
    assert(pending, 'A SQLite answer without a question.');
    if (reply.ok) {
      pending.resolve(reply.outcome);
      return;
    }
    const message = statementMessage(this.#path, reply.code, reply.message);
    pending.reject(Object.assign(new Error(message), { code: reply.code }));
  }

  #end(error: Error): void {
    this.#ended ??= error;
    this.#onEnd();
    for (const pending of this.#pending.splice(0)) pending.reject(error);
  }
}

/**
 * Inside a compiled executable every module lives in one file at the virtual root, and the worker
 * stands where `bun build --compile src/main.ts src/store/sqlite/worker.ts` puts it.
 */
function workerUrl(): URL {
  const compiled = import.meta.url.includes('/$bunfs/') || import.meta.url.includes('/~BUN/');
  return compiled
    ? new URL('./store/sqlite/worker.js', import.meta.url)
    : new URL('./worker.ts', import.meta.url);
}
