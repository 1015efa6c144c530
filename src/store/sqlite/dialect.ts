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
import { BoundedLock } from '../bounded-lock.ts';
import { callWaitMs } from '../database.ts';
import { commitBatch } from '../ledger/commit.ts';
import type { Schema } from '../schema.ts';

export type SqlValue = null | number | bigint | string | Uint8Array;

export type WorkerRequest =
  /** One batch of settlements as JSON, because text crosses threads faster than objects. */
  { readonly kind: 'commit-batch'; readonly batch: string } | ConnectionRequest;

/** A request that the connection handles directly. */
export type ConnectionRequest =
  | { readonly kind: 'open'; readonly path: string; readonly role: 'writer' | 'reader' }
  | {
      readonly kind: 'run';
      readonly sql: string;
      readonly parameters: readonly SqlValue[];
      /** True if the statement belongs to a transaction and must not run outside it. */
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
  /** Rows affected by a statement without a result set. */
  readonly changes: number | null;
}

export type WorkerReply =
  | { readonly ok: true; readonly outcome: Outcome }
  | { readonly ok: false; readonly message: string; readonly code: string | null };

/** Commits batches in the writer's thread, on its own connection. */
export function batchCommitterOn(
  send: (request: ConnectionRequest) => Promise<Outcome>,
): (batch: ParsedBatch) => Promise<readonly Booked[]> {
  // The sender of a batch already holds the writer's lock, so no call ever waits here.
  const lock = new BoundedLock({ waitersMax: 0, waitMs: callWaitMs });
  const database = new Kysely<Schema>({ dialect: sqliteDialect({ send }, lock) });
  return (batch) => database.transaction().execute((trx) => commitBatch(trx, 'sqlite', batch));
}

/** Sends requests to a thread or, inside it, directly to its connection. */
interface SqliteChannel {
  send(request: ConnectionRequest): Promise<Outcome>;
}

/** A Kysely dialect for a thread. With a lock, the thread is the writer. */
export function sqliteDialect(thread: SqliteChannel, lock: BoundedLock | undefined): Dialect {
  return {
    createAdapter: () => new ThreadAdapter(),
    createDriver: () => new ThreadDriver(thread, lock),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new ThreadQueryCompiler(),
  };
}

/**
 * Reports support for multiple connections, because Kysely would otherwise queue callers without a
 * limit.
 */
class ThreadAdapter extends SqliteAdapter {
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}

/** Drops `for update`: on SQLite, a transaction locks the whole file from its start. */
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
    assert(this.#lock, 'Only the writer has transactions.');
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

  /** Does nothing, because the code that opened the thread closes it. */
  async destroy(): Promise<void> {}
}

class ThreadConnection implements DatabaseConnection {
  readonly #thread: SqliteChannel;
  #inTransaction = false;

  constructor(thread: SqliteChannel) {
    this.#thread = thread;
  }

  async begin(): Promise<void> {
    // Take the write lock at once, so that a transaction never has to be aborted halfway because
    // another process wrote in between.
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
    throw new Error('Streaming is not supported on SQLite; read pages instead.');
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
    // A parameter is never a list, so a list of lists means one execution per row.
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
