import { strict as assert } from 'node:assert';
import type { PostgresCursor, PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import type pg from 'pg';
import { failureCode } from '../../core/failure-code.ts';
import { turnWaitMs, waitingCallsMax } from '../database.ts';
import { tooBusy } from '../turns.ts';

/** After a server had no connection left for us, we ask for another one only after this time. */
const fullMs = 10_000;

/**
 * A pool with a bound on its queue, which drops connections that stopped answering, and makes do
 * with those it has while the server has no more. `beginning` is what a transaction says first.
 */
export function watched(pool: pg.Pool, beginning: string): PostgresPool {
  const { max } = pool.options;
  let isFullUntil = 0;
  const connect = async (): Promise<pg.PoolClient> => {
    if (performance.now() >= isFullUntil) pool.options.max = max;
    let until: number | undefined;
    for (;;) {
      try {
        return await pool.connect();
      } catch (thrown) {
        // Counted from the first refusal, which alone may have taken a busy server long.
        until ??= performance.now() + turnWaitMs;
        const mayWait = isServerFull(thrown) && pool.totalCount > 0 && performance.now() < until;
        if (!mayWait) throw thrown;
        isFullUntil = performance.now() + fullMs;
        // 1, not `totalCount`, which includes connections being refused right now: the pool would
        // ask again in place of each, for as long as anybody waits. Those it has stay.
        pool.options.max = 1;
      }
    }
  };
  return {
    options: pool.options,
    end: () => pool.end(),
    connect: async () => {
      if (pool.waitingCount >= waitingCallsMax) {
        throw tooBusy(`${pool.waitingCount} calls are waiting already`);
      }
      return new WatchedClient(await connect(), beginning);
    },
  };
}

/** The server, its database, our user or a pooler in front has no connection left to give. */
export function isServerFull(thrown: unknown): boolean {
  if (failureCode(thrown) === '53300') return true;
  // PgBouncer has no code of its own for it.
  const message = thrown instanceof Error ? thrown.message : '';
  return /^(?:no more connections allowed|client connections exceeded)/.test(message);
}

/**
 * When a server freezes, `pg` reports a timeout but keeps the dead query on the connection, and
 * everybody who gets that connection next waits behind it: a rollback, then strangers.
 */
class WatchedClient implements PostgresPoolClient {
  readonly #client: pg.PoolClient;
  readonly #beginning: string;
  #silent: Error | undefined;

  constructor(client: pg.PoolClient, beginning: string) {
    this.#client = client;
    this.#beginning = beginning;
  }

  query<Row>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<Row>>;
  query<Row>(cursor: PostgresCursor<Row>): PostgresCursor<Row>;
  query<Row>(
    sql: string | PostgresCursor<Row>,
    parameters: readonly unknown[] = [],
  ): Promise<PostgresQueryResult<Row>> | PostgresCursor<Row> {
    assert(typeof sql === 'string', 'Cursors are not used: read pages instead.');
    return this.#ask<Row>(sql === 'begin' ? this.#beginning : sql, parameters);
  }

  release(destroy?: boolean): void {
    this.#client.release(destroy === true || this.#silent !== undefined);
  }

  async #ask<Row>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<Row>> {
    if (this.#silent !== undefined) throw this.#silent;
    try {
      const result: unknown = await this.#client.query(sql, [...parameters]);
      // Kysely and `pg` describe the same object with different words.
      return result as PostgresQueryResult<Row>;
    } catch (thrown) {
      // A transaction that only half began must not become somebody else's either.
      if (
        thrown instanceof Error &&
        (thrown.message === 'Query read timeout' || sql === this.#beginning)
      ) {
        this.#silent = thrown;
      }
      throw thrown;
    }
  }
}
