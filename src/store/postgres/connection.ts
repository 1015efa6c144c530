import { strict as assert } from 'node:assert';
import type { PostgresCursor, PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import pg from 'pg';
import { failureCode, failureMessage, type GatewayError } from '../../core/errors.ts';
import { tooBusy } from '../call-queue.ts';
import { callWaitMs, waitingCallsMax } from '../database.ts';
import { storeError } from '../errors.ts';

export interface PostgresAddress {
  /** As the driver takes it. */
  readonly url: string;
  /** `host:port/database`: the password never appears in an error. */
  readonly target: string;
}

export function parseAddress(text: string): PostgresAddress {
  const url = normalizeSslMode(text);
  try {
    const { host, port, database } = new pg.Client({ connectionString: url });
    return { url, target: `${host}:${port}/${database ?? ''}` };
  } catch (error) {
    // The driver's own message repeats the address, password and all.
    throw storeError(invalidAddressMessage(error));
  }
}

function invalidAddressMessage(error: unknown): string {
  const isFile = error instanceof Error && 'syscall' in error;
  if (isFile) return `A file that the database address names cannot be read: ${error.message}.`;
  return (
    'The database address is not a valid postgres:// URL; in its password, characters such as ' +
    '@ : / % # ? are written as %40 %3A %2F %25 %23 %3F.'
  );
}

/**
 * To the driver these modes mean `verify-full`, and it prints a page about that at every start. An
 * operator who wants their weaker meaning sets `uselibpqcompat=true`, or `no-verify`.
 */
function normalizeSslMode(url: string): string {
  if (/[?&]uselibpqcompat=true(&|$)/.test(url)) return url;
  return url.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, '$1verify-full');
}

const unknownAuthority =
  'its certificate is not signed by an authority known here: name that with ' +
  'sslrootcert=<file>, or accept any certificate with sslmode=no-verify';

const reasons: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the connection was cut',
  ENOTFOUND: 'the host name is unknown',
  EAI_AGAIN: 'the host name cannot be looked up',
  ENOENT: 'there is no such socket',
  ETIMEDOUT: 'no answer',
  EHOSTUNREACH: 'the host cannot be reached',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownAuthority,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownAuthority,
  SELF_SIGNED_CERT_IN_CHAIN: unknownAuthority,
  DEPTH_ZERO_SELF_SIGNED_CERT: unknownAuthority,
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  '28P01': 'user or password refused',
  '28000': 'the login was refused',
  '3D000': 'the database does not exist',
  '42501':
    'this user may not make tables there: grant it CREATE on the schema, or SELECT, INSERT, ' +
    'UPDATE and DELETE on all tables that another user has made',
  '3F000': 'the search_path of this user names no schema that there is',
  '53300': 'it has too many connections already',
  '57P03': 'it is starting up or shutting down',
};

/** The driver has no code for a missing password, and its message does not say what to do. */
const missingPasswordReason =
  'it asks for a password, and neither the address nor PGPASSWORD has one';

/** A failure as one sentence, such as "Postgres at … cannot be reached: connection refused." */
export function postgresError(target: string, problem: string, error: unknown): GatewayError {
  const message = failureMessage(error);
  const isPasswordMissing = message.includes('client password must be a');
  const reason = isPasswordMissing
    ? missingPasswordReason
    : (reasons[failureCode(error) ?? ''] ?? message);
  return storeError(`Postgres at ${target} ${problem}: ${reason}.`, error);
}

/** After a server had no connection left for us, we ask for another one only after this time. */
const serverFullMs = 10_000;

/**
 * A pool with a bound on its queue, which drops connections that stopped answering, and makes do
 * with those it has while the server has no more. `beginning` is what a transaction says first.
 */
export function boundedPool(pool: pg.Pool, beginStatement: string): PostgresPool {
  const { max } = pool.options;
  let fullUntil = 0;
  const connect = async (): Promise<pg.PoolClient> => {
    if (performance.now() >= fullUntil) pool.options.max = max;
    let until: number | undefined;
    for (;;) {
      try {
        return await pool.connect();
      } catch (error) {
        // Counted from the first refusal, which alone may have taken a busy server long.
        until ??= performance.now() + callWaitMs;
        const mayWait = isServerFull(error) && pool.totalCount > 0 && performance.now() < until;
        if (!mayWait) throw error;
        fullUntil = performance.now() + serverFullMs;
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
      return new BoundedClient(await connect(), beginStatement);
    },
  };
}

/** The server, its database, our user or a pooler in front has no connection left to give. */
export function isServerFull(error: unknown): boolean {
  if (failureCode(error) === '53300') return true;
  // PgBouncer has no code of its own for it.
  const message = error instanceof Error ? error.message : '';
  return /^(?:no more connections allowed|client connections exceeded)/.test(message);
}

/**
 * When a server freezes, `pg` reports a timeout but keeps the dead query on the connection, and
 * everybody who gets that connection next waits behind it: a rollback, then strangers.
 */
class BoundedClient implements PostgresPoolClient {
  readonly #client: pg.PoolClient;
  readonly #beginStatement: string;
  #failure: Error | undefined;

  constructor(client: pg.PoolClient, beginStatement: string) {
    this.#client = client;
    this.#beginStatement = beginStatement;
  }

  query<Row>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<Row>>;
  query<Row>(cursor: PostgresCursor<Row>): PostgresCursor<Row>;
  query<Row>(
    sql: string | PostgresCursor<Row>,
    parameters: readonly unknown[] = [],
  ): Promise<PostgresQueryResult<Row>> | PostgresCursor<Row> {
    assert(typeof sql === 'string', 'Cursors are not used: read pages instead.');
    return this.#run<Row>(sql === 'begin' ? this.#beginStatement : sql, parameters);
  }

  release(destroy?: boolean): void {
    this.#client.release(destroy === true || this.#failure !== undefined);
  }

  async #run<Row>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<Row>> {
    if (this.#failure !== undefined) throw this.#failure;
    try {
      const result: unknown = await this.#client.query(sql, [...parameters]);
      // Kysely and `pg` describe the same object with different words.
      return result as PostgresQueryResult<Row>;
    } catch (error) {
      // A transaction that only half began must not become somebody else's either.
      if (
        error instanceof Error &&
        (error.message === 'Query read timeout' || sql === this.#beginStatement)
      ) {
        this.#failure = error;
      }
      throw error;
    }
  }
}
