import { strict as assert } from 'node:assert';
import type { PostgresCursor, PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import type pg from 'pg';
import { waitingCallsMax } from './database.ts';
import { tooBusy } from './turns.ts';

/** A pool with a bound on its queue, which drops connections that stopped answering. */
export function watched(pool: pg.Pool): PostgresPool {
  return {
    options: pool.options,
    end: () => pool.end(),
    connect: async () => {
      if (pool.waitingCount >= waitingCallsMax) {
        throw tooBusy(`${pool.waitingCount} calls are waiting already`);
      }
      return new WatchedClient(await pool.connect());
    },
  };
}

/**
 * When a server freezes, `pg` reports a timeout but keeps the dead query on the connection, and
 * everybody who gets that connection next waits behind it: a rollback, then strangers.
 */
class WatchedClient implements PostgresPoolClient {
  readonly #client: pg.PoolClient;
  #silent: Error | undefined;

  constructor(client: pg.PoolClient) {
    this.#client = client;
  }

  query<Row>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<Row>>;
  query<Row>(cursor: PostgresCursor<Row>): PostgresCursor<Row>;
  query<Row>(
    sql: string | PostgresCursor<Row>,
    parameters: readonly unknown[] = [],
  ): Promise<PostgresQueryResult<Row>> | PostgresCursor<Row> {
    assert(typeof sql === 'string', 'Cursors are not used: read pages instead.');
    return this.#ask<Row>(sql, parameters);
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
      if (thrown instanceof Error && thrown.message === 'Query read timeout') {
        this.#silent = thrown;
      }
      throw thrown;
    }
  }
}
