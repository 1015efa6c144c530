/**
 * A thread that owns one SQLite connection, because `bun:sqlite` is synchronous: an fsync here
 * blocks nobody else. It answers one message at a time, in order; failures are answers too.
 */
import { Database, type Statement } from 'bun:sqlite';
import { strict as assert } from 'node:assert';
import { closeSync, openSync } from 'node:fs';
import { failureCode, failureMessage } from '../../core/failure-code.ts';
import type { Booked, ReadBatch } from '../../ledger/ledger-store.ts';
import { assertSameFile, identityOf } from './file-identity.ts';
import type { Outcome, Question, SqlAnswer, SqlValue, Step } from './messages.ts';

declare const self: Worker;

/** Longer than any transaction of another process on the same file. */
const busyTimeoutMs = 10_000;

/** SQLite's log is cut to this size after a large change; the usual ones need far less. */
const logBytesMax = 32 * 1024 * 1024;

/** Distinct SQL texts of the code are far fewer; only generated lists make more. */
const statementsMax = 256;

const nothing: Outcome = { rows: [], changes: null };
let database: Database | undefined;
/** The writer's file. */
let changed: { readonly path: string; readonly identity: string | undefined } | undefined;
const statements = new Map<string, Statement<unknown, SqlValue[]>>();

/** Imported with the first batch: commands of the command line send none. */
let booking: Promise<(batch: ReadBatch) => Promise<readonly Booked[]>> | undefined;
/** Questions are answered in order, also behind one that takes several steps. */
let answered = Promise.resolve();

self.onmessage = ({ data }: MessageEvent<Question>) => {
  answered = answered.then(async () => self.postMessage(await answer(data)));
};

async function answer(question: Question): Promise<SqlAnswer> {
  try {
    const outcome = question.kind === 'book' ? await book(question.batch) : perform(question);
    return { ok: true, outcome };
  } catch (thrown) {
    return { ok: false, message: failureMessage(thrown), code: failureCode(thrown) ?? null };
  }
}

async function book(batch: string): Promise<Outcome> {
  booking ??= import('./booking.ts').then(
    ({ booksOn }) => booksOn(step),
    (thrown) => {
      // The import can fail when too many files are open: the next batch tries again.
      booking = undefined;
      throw thrown;
    },
  );
  const commit = await booking;
  return { rows: [...(await commit(JSON.parse(batch) as ReadBatch))], changes: null };
}

async function step(question: Step): Promise<Outcome> {
  return perform(question);
}

function perform(question: Step): Outcome {
  if (question.kind === 'open') return open(question.path, question.role);
  const connection = database;
  assert(connection, 'The database is not open.');
  switch (question.kind) {
    case 'run':
      if (changed && !question.inTransaction) assertSameFile(changed.path, changed.identity);
      assertTransaction(connection, question.inTransaction);
      return run(connection, question.sql, question.parameters);
    case 'run-many':
      assertTransaction(connection, question.inTransaction);
      return runMany(connection, question.sql, question.rows);
    case 'rollback':
      // A full disk makes SQLite roll back by itself, and then refuse to do it again.
      if (connection.inTransaction) connection.run('rollback');
      return nothing;
    case 'close':
      for (const statement of statements.values()) statement.finalize();
      statements.clear();
      connection.close(true);
      database = undefined;
      return nothing;
  }
}

function open(path: string, role: 'writer' | 'reader'): Outcome {
  if (role === 'writer') makeClosed(path);
  database = new Database(path, { readwrite: true, create: role === 'writer' });
  database.run(`pragma busy_timeout = ${busyTimeoutMs}`);
  if (role === 'writer') {
    enterWal(database);
    // Otherwise a migration's log, often as long as the file, would stay until the process ends.
    database.run(`pragma journal_size_limit = ${logBytesMax}`);
  }
  database.run('pragma synchronous = full');
  database.run('pragma foreign_keys = on');
  if (role === 'reader') database.run('pragma query_only = on');
  else changed = { path, identity: identityOf(path) };
  return nothing;
}

/**
 * A folder that was there before may be open to everybody; the file with everybody's records, and
 * those that SQLite puts beside it with the same rights, are not.
 */
function makeClosed(path: string): void {
  try {
    closeSync(openSync(path, 'ax', 0o600));
  } catch {
    // It is there already, or SQLite will say why it cannot be made.
  }
}

/** SQLite skips its busy handler for this one switch, so processes that start together collide. */
function enterWal(connection: Database): void {
  const deadline = performance.now() + busyTimeoutMs;
  for (;;) {
    try {
      connection.run('pragma journal_mode = wal');
      return;
    } catch (thrown) {
      const isBusy = failureCode(thrown) === 'SQLITE_BUSY';
      if (!isBusy || performance.now() > deadline) throw thrown;
      Bun.sleepSync(5);
    }
  }
}

/**
 * After SQLite has rolled back by itself, the next statement of that transaction would commit on
 * its own: half of a change.
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

/** Integers beyond 2⁵³ arrive rounded; money must fail loudly instead. */
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
    // Used last, dropped last: a Map keeps the order of insertion.
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
