import { strict as assert } from 'node:assert';
import { Kysely } from 'kysely';
import { type Booked, batchJson } from '../../money/ledger.ts';
import { BoundedLock, tooBusy } from '../bounded-lock.ts';
import { callWaitMs, type Database, type ReadOnlyDatabase, waitingCallsMax } from '../database.ts';
import type { Schema } from '../schema.ts';
import { assertSameFile, fileFailure, identityOf, statementMessage } from './database-file.ts';
import { type Outcome, sqliteDialect, type WorkerReply, type WorkerRequest } from './dialect.ts';

/** Opens or creates a database file, with one thread for writes and two for reads. */
export async function openSqlite(path: string): Promise<Database> {
  const writer = new ReopeningThread(path, 'writer');
  const reader = new ReopeningThread(path, 'reader');
  await writer.open();
  await reader.open().catch(async (error: unknown) => {
    await writer.close();
    throw error;
  });
  // Opened on first use, because most processes never read reports.
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
        const { rows } = await writer.send({ kind: 'commit-batch', batch: batchJson(batch) });
        return rows as Booked[];
      } finally {
        lock.release();
      }
    },
    ping: async () => {
      await Promise.all([pingThread(reader), pingThread(writer)]);
    },
    close: async () => {
      // Close the writer last, because closing the last connection checkpoints the WAL.
      await reports.close();
      await reader.close();
      await writer.close();
    },
  };
}

/**
 * A thread that opens on first use, and again after it has ended unexpectedly. When a thread ends,
 * SQLite rolls back its open transaction.
 */
class ReopeningThread {
  readonly #path: string;
  readonly #role: 'writer' | 'reader';
  #thread: Promise<SqliteThread> | undefined;
  /** Set once the file was opened. */
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
      // Opening can fail, for example with too many open files. The next call tries again.
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

/** Opens an existing file for reading while other processes may be writing to it. */
export async function openSqliteReadOnly(path: string): Promise<ReadOnlyDatabase> {
  const reader = new ReopeningThread(path, 'reader');
  await reader.open();
  return {
    engine: 'sqlite',
    read: new Kysely<Schema>({ dialect: sqliteDialect(reader, undefined) }),
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

/** The main thread's side of a SQLite worker. Replies arrive in the order of the requests. */
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
      return Promise.reject(tooBusy(`${this.#pending.length} calls are already waiting`));
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
    assert(pending, 'The SQLite thread sent a reply without a request.');
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
 * In a compiled executable, all modules are one file at the virtual root, and the worker is where
 * `bun build --compile src/main.ts src/store/sqlite/worker.ts` puts it.
 */
function workerUrl(): URL {
  const compiled = import.meta.url.includes('/$bunfs/') || import.meta.url.includes('/~BUN/');
  return compiled
    ? new URL('./store/sqlite/worker.js', import.meta.url)
    : new URL('./worker.ts', import.meta.url);
}
