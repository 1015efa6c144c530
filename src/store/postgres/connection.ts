import { strict as assert } from 'node:assert';
import type { PostgresCursor, PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import pg from 'pg';
import { failureCode, failureMessage, type GatewayError } from '../../core/errors.ts';
import { tooBusy } from '../bounded-lock.ts';
import { callWaitMs, waitingCallsMax } from '../database.ts';
import { storeError } from '../errors.ts';

export interface PostgresAddress {
  /** The form that the driver expects. */
  readonly url: string;
  /** `host:port/database`, without the password, for errors. */
  readonly target: string;
}

export function parseAddress(text: string): PostgresAddress {
  const url = normalizeSslMode(text);
  try {
    const { host, port, database } = new pg.Client({ connectionString: url });
    return { url, target: `${host}:${port}/${database ?? ''}` };
  } catch (error) {
    // The driver's message contains the URL with the password.
    throw storeError(invalidAddressMessage(error));
  }
}

/** Returns the host that a Postgres URL reaches over an unencrypted network connection, if any. */
export function unencryptedHost(text: string): string | undefined {
  if (!/^postgres(ql)?:/.test(text)) return undefined;
  const { host, ssl } = new pg.Client({ connectionString: normalizeSslMode(text) });
  const isLocal = host.startsWith('/') || /^(localhost|127\.[\d.]+|\[?::1\]?)$/i.test(host);
  return isLocal || ssl ? undefined : host;
}

function invalidAddressMessage(error: unknown): string {
  const isFile = error instanceof Error && 'syscall' in error;
  if (isFile) return `A file that the database URL names can't be read: ${error.message}.`;
  return (
    'The database URL is not a valid postgres:// URL. In its password, write the characters ' +
    '@ : / % # ? as %40 %3A %2F %25 %23 %3F.'
  );
}

/**
 * The driver treats these modes as `verify-full` and writes a long warning at every startup. To get
 * their weaker meaning, an operator sets `uselibpqcompat=true` or `sslmode=no-verify`.
 */
function normalizeSslMode(url: string): string {
  if (/[?&]uselibpqcompat=true(&|$)/.test(url)) return url;
  return url.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, '$1verify-full');
}

const unknownAuthority =
  'its certificate is signed by an unknown authority. Set sslrootcert=<file>, or accept any ' +
  'certificate with sslmode=no-verify';

const reasons: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the connection was reset',
  ENOTFOUND: 'the host name is unknown',
  EAI_AGAIN: 'the host name lookup failed',
  ENOENT: 'the socket does not exist',
  ETIMEDOUT: 'no response',
  EHOSTUNREACH: 'the host cannot be reached',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownAuthority,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownAuthority,
  SELF_SIGNED_CERT_IN_CHAIN: unknownAuthority,
  DEPTH_ZERO_SELF_SIGNED_CERT: unknownAuthority,
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  '28P01': 'wrong user or password',
  '28000': 'the login was rejected',
  '3D000': 'the database does not exist',
  '42501':
    'this user has no permission to create tables. Grant it CREATE on the schema, or SELECT, ' +
    'INSERT, UPDATE, and DELETE on all tables if another user has created them',
  '3F000': 'the search_path of this user has no existing schema',
  '53300': 'it has too many connections already',
  '57P03': 'it is starting up or shutting down',
};

/** The driver has no code for a missing password, and an unhelpful message. */
const missingPasswordReason = 'it requires a password, but neither the URL nor PGPASSWORD has one';

/** Returns an error as a sentence: "Postgres at … cannot be reached: connection refused." */
export function postgresError(target: string, problem: string, error: unknown): GatewayError {
  const message = failureMessage(error);
  const isPasswordMissing = message.includes('client password must be a');
  const reason = isPasswordMissing
    ? missingPasswordReason
    : (reasons[failureCode(error) ?? ''] ?? message);
  return storeError(`Postgres at ${target} ${problem}: ${reason}.`, error);
}

/** Pause before opening new connections after the server was full. */
const serverFullMs = 10_000;

/**
 * Wraps a pool: limits its queue, drops connections that stopped responding, and uses only its
 * existing connections while the server accepts no more. `beginStatement` begins each transaction.
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
        // Counted from the first rejection, because a busy server may take long even to reject.
        until ??= performance.now() + callWaitMs;
        const mayWait = isServerFull(error) && pool.totalCount > 0 && performance.now() < until;
        if (!mayWait) throw error;
        fullUntil = performance.now() + serverFullMs;
        // Use 1, not `totalCount`, which includes connections that are being rejected: the pool
        // would retry each of them while any call waits. Existing connections stay open.
        pool.options.max = 1;
      }
    }
  };
  return {
    options: pool.options,
    end: () => pool.end(),
    connect: async () => {
      if (pool.waitingCount >= waitingCallsMax) {
        throw tooBusy(`${pool.waitingCount} calls are already waiting`);
      }
      return new BoundedClient(await connect(), beginStatement);
    },
  };
}

/** Returns true if the server, database, user, or a pooler has reached its connection limit. */
export function isServerFull(error: unknown): boolean {
  if (failureCode(error) === '53300') return true;
  // PgBouncer has no specific code.
  const message = error instanceof Error ? error.message : '';
  return /^(?:no more connections allowed|client connections exceeded)/.test(message);
}

/**
 * Ends statements that commit their transaction. No round trip then prolongs its locks. The
 * `commit` that follows from Kysely is skipped.
 */
export const andCommit = '; commit';

/** Runs a `copy … from stdin` statement with its data in Postgres's text format. */
function copyIn(client: pg.PoolClient, statement: string, data: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const done: CopyDone = (error, result) => (error ? reject(error) : resolve(result));
    client.query(new CopyIn(statement, data, done));
  });
}

type CopyDone = (error: Error | null | undefined, result: unknown) => void;

/** A statement of the driver that sends data when the server asks for it. */
class CopyIn extends pg.Query {
  readonly #data: string;

  constructor(statement: string, data: string, done: CopyDone) {
    super(statement, undefined, done);
    this.#data = data;
  }

  handleCopyInResponse(connection: CopyConnection): void {
    connection.sendCopyFromChunk(Buffer.from(this.#data));
    connection.endCopyFrom();
  }
}

/** The methods of the driver's connection that its types leave out. */
interface CopyConnection {
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
}

/**
 * Drops connections after a timeout. When a server freezes, `pg` reports a timeout but keeps the
 * dead query on the connection, and every later query on that connection would wait for it.
 */
class BoundedClient implements PostgresPoolClient {
  readonly #client: pg.PoolClient;
  readonly #beginStatement: string;
  #failure: Error | undefined;
  /** True if the last statements ended the transaction. */
  #isCommitted = false;

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
    assert(typeof sql === 'string', 'Cursors are not supported; read pages instead.');
    return this.#run<Row>(sql === 'begin' ? this.#beginStatement : sql, parameters);
  }

  release(destroy?: boolean): void {
    this.#client.release(destroy === true || this.#failure !== undefined);
  }

  async #run<Row>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<Row>> {
    if (this.#failure !== undefined) throw this.#failure;
    if (sql === 'commit' && this.#isCommitted) return { command: 'SELECT', rowCount: 0, rows: [] };
    try {
      const result: unknown = await (sql.startsWith('copy ')
        ? copyIn(this.#client, sql, String(parameters[0]))
        : this.#client.query(sql, [...parameters]));
      this.#isCommitted = sql.endsWith(andCommit);
      // Several statements have several results, the last of `commit`. Kysely and `pg` have
      // different types for the same object.
      return (Array.isArray(result) ? result.at(-2) : result) as PostgresQueryResult<Row>;
    } catch (error) {
      // A transaction whose begin failed halfway must not stay on the connection either.
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
