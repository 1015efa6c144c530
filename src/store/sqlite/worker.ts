/**
 * A thread that owns one SQLite connection, because `bun:sqlite` is synchronous: an fsync here
 * doesn't block the main thread. Handles one message at a time, in order, and replies to each.
 */
import { Database, type Statement } from 'bun:sqlite';
import { strict as assert } from 'node:assert';
import { closeSync, openSync } from 'node:fs';
import { failureCode, failureMessage } from '../../core/errors.ts';
import type { Booked, ParsedBatch } from '../../money/ledger.ts';
import { assertSameFile, identityOf } from './database-file.ts';
import type {
  ConnectionRequest,
  Outcome,
  SqlValue,
  WorkerReply,
  WorkerRequest,
} from './dialect.ts';

declare const self: Worker;

/** Longer than any transaction of another process on the same file. */
const busyTimeoutMs = 10_000;

/**
 * SQLite truncates its WAL to this size after a large transaction. Most transactions need far less.
 */
const logBytesMax = 32 * 1024 * 1024;

/** The code has far fewer distinct statements; only generated lists add more. */
const statementsMax = 256;

const noRows: Outcome = { rows: [], changes: null };
let database: Database | undefined;
/** Set in the writer. */
let writerFile: { readonly path: string; readonly identity: string | undefined } | undefined;
const statements = new Map<string, Statement<unknown, SqlValue[]>>();

/** Imported with the first batch, because CLI commands send none. */
let batchCommitter: Promise<(batch: ParsedBatch) => Promise<readonly Booked[]>> | undefined;
/**
 * Resolves after the reply to the last request. Requests are handled in order, even after one that
 * takes several steps.
 */
let replied = Promise.resolve();

self.onmessage = ({ data }: MessageEvent<WorkerRequest>) => {
  replied = replied.then(async () => self.postMessage(await reply(data)));
};

async function reply(request: WorkerRequest): Promise<WorkerReply> {
  try {
    const outcome =
      request.kind === 'commit-batch' ? await commitBatch(request.batch) : perform(request);
    return { ok: true, outcome };
  } catch (error) {
    return { ok: false, message: failureMessage(error), code: failureCode(error) ?? null };
  }
}

async function commitBatch(batch: string): Promise<Outcome> {
  batchCommitter ??= import('./dialect.ts').then(
    ({ batchCommitterOn }) => batchCommitterOn(performStep),
    (error) => {
      // The import can fail with too many open files. The next batch tries again.
      batchCommitter = undefined;
      throw error;
    },
  );
  const commit = await batchCommitter;
  return { rows: [...(await commit(JSON.parse(batch) as ParsedBatch))], changes: null };
}

async function performStep(request: ConnectionRequest): Promise<Outcome> {
  return perform(request);
}

function perform(request: ConnectionRequest): Outcome {
  if (request.kind === 'open') return open(request.path, request.role);
  const connection = database;
  assert(connection, 'The database is not open.');
  switch (request.kind) {
    case 'run':
      if (writerFile && !request.inTransaction)
        assertSameFile(writerFile.path, writerFile.identity);
      assertTransaction(connection, request.inTransaction);
      return run(connection, request.sql, request.parameters);
    case 'run-many':
      assertTransaction(connection, request.inTransaction);
      return runMany(connection, request.sql, request.rows);
    case 'rollback':
      // On a full disk, SQLite rolls back by itself and then rejects another rollback.
      if (connection.inTransaction) connection.run('rollback');
      return noRows;
    case 'close':
      for (const statement of statements.values()) statement.finalize();
      statements.clear();
      connection.close(true);
      database = undefined;
      return noRows;
  }
}

function open(path: string, role: 'writer' | 'reader'): Outcome {
  if (role === 'writer') createPrivate(path);
  database = new Database(path, { readwrite: true, create: role === 'writer' });
  database.run(`pragma busy_timeout = ${busyTimeoutMs}`);
  if (role === 'writer') {
    enterWal(database);
    // Otherwise, the WAL of a migration, which is often as large as the file, would stay until the
    // process ends.
    database.run(`pragma journal_size_limit = ${logBytesMax}`);
  }
  database.run('pragma synchronous = full');
  database.run('pragma foreign_keys = on');
  if (role === 'reader') database.run('pragma query_only = on');
  else writerFile = { path, identity: identityOf(path) };
  return noRows;
}

/**
 * Creates the file closed to other users, because an existing folder may be open to them. SQLite
 * gives its other files the same permissions.
 */
function createPrivate(path: string): void {
  try {
    closeSync(openSync(path, 'ax', 0o600));
  } catch {
    // It exists already, or SQLite will report why it can't be created.
  }
}

/**
 * Switches to WAL mode. Retries, because SQLite doesn't wait for locks during this switch, and
 * processes may start together.
 */
function enterWal(connection: Database): void {
  const deadline = performance.now() + busyTimeoutMs;
  for (;;) {
    try {
      connection.run('pragma journal_mode = wal');
      return;
    } catch (error) {
      const isBusy = failureCode(error) === 'SQLITE_BUSY';
      if (!isBusy || performance.now() > deadline) throw error;
      Bun.sleepSync(5);
    }
  }
}

/**
 * Throws if SQLite has rolled back by itself. The next statement of that transaction would
 * otherwise commit alone.
 */
function assertTransaction(connection: Database, expected: boolean): void {
  assert(!expected || connection.inTransaction, 'The transaction was already rolled back.');
}

function run(connection: Database, sql: string, parameters: readonly SqlValue[]): Outcome {
  const statement = prepare(connection, sql);
  if (statement.columnNames.length === 0) {
    return { rows: [], changes: statement.run(...parameters).changes };
  }
  const rows = statement.all(...parameters);
  for (const row of rows) assertExact(row);
  return { rows, changes: null };
}

function runMany(
  connection: Database,
  sql: string,
  rows: readonly (readonly SqlValue[])[],
): Outcome {
  const statement = prepare(connection, sql);
  let changes = 0;
  for (const row of rows) changes += statement.run(...row).changes;
  return { rows: [], changes };
}

/** Throws for integers beyond 2⁵³, which arrive rounded. A wrong amount must not go unnoticed. */
function assertExact(row: unknown): void {
  assert(typeof row === 'object' && row !== null);
  for (const value of Object.values(row)) {
    const rounded = typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER;
    assert(!rounded, 'A stored number is too large to be read exactly.');
  }
}

function prepare(connection: Database, sql: string): Statement<unknown, SqlValue[]> {
  const known = statements.get(sql);
  if (known !== undefined) {
    // Reinsert, because a Map keeps insertion order and the oldest is dropped first.
    statements.delete(sql);
    statements.set(sql, known);
    return known;
  }
  if (statements.size >= statementsMax) {
    const oldest = statements.entries().next().value;
    assert(oldest);
    statements.delete(oldest[0]);
    oldest[1].finalize();
  }
  const statement = connection.prepare<unknown, SqlValue[]>(sql);
  statements.set(sql, statement);
  return statement;
}
