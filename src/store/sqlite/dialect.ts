/** Kysely's way to the SQLite threads: its own compiler, our driver. */
import { strict as assert } from 'node:assert';
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  type SelectQueryNode,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import type { Turns } from '../turns.ts';
import type { Outcome, SqlValue, Step } from './messages.ts';

/** Where questions go: to a thread, or, inside of it, straight to its connection. */
interface SqliteAnswerer {
  ask(question: Step): Promise<Outcome>;
}

/** With `turns` the thread is a writer: whoever has the turn has the connection to themselves. */
export function sqliteDialect(thread: SqliteAnswerer, turns: Turns | undefined): Dialect {
  return {
    createAdapter: () => new ThreadAdapter(),
    createDriver: () => new ThreadDriver(thread, turns),
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
  readonly #turns: Turns | undefined;

  constructor(thread: SqliteAnswerer, turns: Turns | undefined) {
    this.#connection = new ThreadConnection(thread);
    this.#turns = turns;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    await this.#turns?.take();
    return this.#connection;
  }

  async beginTransaction(): Promise<void> {
    assert(this.#turns, 'Transactions belong to the writer.');
    await this.#connection.begin();
  }

  commitTransaction(): Promise<void> {
    return this.#connection.commit();
  }

  rollbackTransaction(): Promise<void> {
    return this.#connection.rollback();
  }

  async releaseConnection(): Promise<void> {
    this.#turns?.give();
  }

  /** Leaves the thread alone: whoever opened it closes it. */
  async destroy(): Promise<void> {}
}

class ThreadConnection implements DatabaseConnection {
  readonly #thread: SqliteAnswerer;
  #inTransaction = false;

  constructor(thread: SqliteAnswerer) {
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
    await this.#thread.ask({ kind: 'rollback' });
  }

  async executeQuery<Row>(query: CompiledQuery): Promise<QueryResult<Row>> {
    const outcome = await this.#thread.ask(this.#question(query));
    const rows = outcome.rows as Row[];
    if (outcome.changes === null) return { rows };
    return { rows, numAffectedRows: BigInt(outcome.changes) };
  }

  streamQuery(): never {
    throw new Error('SQLite reads are not streamed: read pages instead.');
  }

  #run(sql: string): Promise<Outcome> {
    return this.#thread.ask({
      kind: 'run',
      sql,
      parameters: [],
      inTransaction: this.#inTransaction,
    });
  }

  #question(query: CompiledQuery): Step {
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
