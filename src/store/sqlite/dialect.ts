import { strict as assert } from 'node:assert';
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  Kysely,
  type QueryResult,
  type SelectQueryNode,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import type { Booked, ParsedBatch } from '../../money/ledger.ts';
import { BoundedLock } from '../call-queue.ts';
import { callWaitMs } from '../database.ts';
import { commitBatch } from '../ledger/commit.ts';
import type { Schema } from '../schema.ts';

/** What crosses to a SQLite worker and back. Each question has one answer, in order. */

export type SqlValue = null | number | bigint | string | Uint8Array;

export type WorkerRequest =
  /** One batch of settlements, as JSON: a text crosses faster than the objects it tells of. */
  { readonly kind: 'book'; readonly batch: string } | ConnectionRequest;

/** What a connection does by itself. */
export type ConnectionRequest =
  | { readonly kind: 'open'; readonly path: string; readonly role: 'writer' | 'reader' }
  | {
      readonly kind: 'run';
      readonly sql: string;
      readonly parameters: readonly SqlValue[];
      /** The statement belongs to a transaction and must not run without it. */
      readonly inTransaction: boolean;
    }
  | {
      readonly kind: 'run-many';
      readonly sql: string;
      readonly rows: readonly (readonly SqlValue[])[];
      readonly inTransaction: boolean;
    }
  | { readonly kind: 'rollback' }
  | { readonly kind: 'close' };

export interface Outcome {
  readonly rows: unknown[];
  /** Rows that a statement without a result set touched. */
  readonly changes: number | null;
}

export type WorkerReply =
  | { readonly ok: true; readonly outcome: Outcome }
  | { readonly ok: false; readonly message: string; readonly code: string | null };

/** The booking of batches inside the writer's thread, next to the data. */

/** Books batches by asking a connection of the same thread. */
export function batchCommitterOn(
  send: (request: ConnectionRequest) => Promise<Outcome>,
): (batch: ParsedBatch) => Promise<readonly Booked[]> {
  // The sender of a batch has the writer's turn already, so nobody ever waits here.
  const lock = new BoundedLock({ waitersMax: 0, waitMs: callWaitMs });
  const database = new Kysely<Schema>({ dialect: sqliteDialect({ send }, lock) });
  return (batch) => database.transaction().execute((trx) => commitBatch(trx, 'sqlite', batch));
}

/** Kysely's way to the SQLite threads: its own compiler, our driver. */

/** Where questions go: to a thread, or, inside of it, straight to its connection. */
interface SqliteChannel {
  send(request: ConnectionRequest): Promise<Outcome>;
}

/** With `turns` the thread is a writer: whoever has the turn has the connection to themselves. */
export function sqliteDialect(thread: SqliteChannel, lock: BoundedLock | undefined): Dialect {
  return {
    createAdapter: () => new ThreadAdapter(),
    createDriver: () => new ThreadDriver(thread, lock),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new ThreadQueryCompiler(),
  };
}

/** Kysely would put all callers of a single connection into one queue without a bound. */
class ThreadAdapter extends SqliteAdapter {
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}

/** `for update` is for Postgres: here a transaction has the whole file to itself from its start. */
class ThreadQueryCompiler extends SqliteQueryCompiler {
  protected override visitSelectQuery({ endModifiers: _, ...query }: SelectQueryNode): void {
    super.visitSelectQuery(query);
  }
}

class ThreadDriver implements Driver {
  readonly #connection: ThreadConnection;
  readonly #lock: BoundedLock | undefined;

  constructor(thread: SqliteChannel, lock: BoundedLock | undefined) {
    this.#connection = new ThreadConnection(thread);
    this.#lock = lock;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    await this.#lock?.acquire();
    return this.#connection;
  }

  async beginTransaction(): Promise<void> {
    assert(this.#lock, 'Transactions belong to the writer.');
    await this.#connection.begin();
  }

  commitTransaction(): Promise<void> {
    return this.#connection.commit();
  }

  rollbackTransaction(): Promise<void> {
    return this.#connection.rollback();
  }

  async releaseConnection(): Promise<void> {
    this.#lock?.release();
  }

  /** Leaves the thread alone: whoever opened it closes it. */
  async destroy(): Promise<void> {}
}

class ThreadConnection implements DatabaseConnection {
  readonly #thread: SqliteChannel;
  #inTransaction = false;

  constructor(thread: SqliteChannel) {
    this.#thread = thread;
  }

  async begin(): Promise<void> {
    // Other processes may write to the same file: taking the write lock at once means that a
    // transaction never has to be given up half-way because somebody else wrote in between.
    await this.#run('begin immediate');
    this.#inTransaction = true;
  }

  async commit(): Promise<void> {
    await this.#run('commit');
    this.#inTransaction = false;
  }

  async rollback(): Promise<void> {
    this.#inTransaction = false;
    await this.#thread.send({ kind: 'rollback' });
  }

  async executeQuery<Row>(query: CompiledQuery): Promise<QueryResult<Row>> {
    const outcome = await this.#thread.send(this.#requestFor(query));
    const rows = outcome.rows as Row[];
    if (outcome.changes === null) return { rows };
    return { rows, numAffectedRows: BigInt(outcome.changes) };
  }

  streamQuery(): never {
    throw new Error('SQLite reads are not streamed: read pages instead.');
  }

  #run(sql: string): Promise<Outcome> {
    return this.#thread.send({
      kind: 'run',
      sql,
      parameters: [],
      inTransaction: this.#inTransaction,
    });
  }

  #requestFor(query: CompiledQuery): ConnectionRequest {
    const inTransaction = this.#inTransaction;
    const { sql, parameters } = query;
    // No single value is a list, so a list of lists can only mean: once for each of these rows.
    if (Array.isArray(parameters[0])) {
      return {
        kind: 'run-many',
        sql,
        rows: parameters as readonly (readonly SqlValue[])[],
        inTransaction,
      };
    }
    return { kind: 'run', sql, parameters: parameters as readonly SqlValue[], inTransaction };
  }
}
