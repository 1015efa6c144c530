import { Kysely, PostgresDialect, sql } from 'kysely';
import pg from 'pg';
import { GatewayError } from '../core/errors.ts';
import { readBatch } from '../ledger/slip.ts';
import { commitBatch } from './commit.ts';
import { type Database, failureCode, turnWaitMs } from './database.ts';
import { watched } from './postgres-client.ts';
import type { Schema } from './schema.ts';

export interface PostgresBounds {
  readonly connectionsMax: number;
  readonly statementTimeoutMs: number;
  /** A frozen server cannot time out by itself: the client gives up, a little later. */
  readonly answerTimeoutMs: number;
}

/**
 * Enough connections for the drain, the management API and look-ups, and few enough that ten
 * processes fit a server with its default of a hundred. No statement of ours takes a second.
 */
const usualBounds: PostgresBounds = {
  connectionsMax: 9,
  statementTimeoutMs: 10_000,
  answerTimeoutMs: 12_000,
};

/** A schema step over a large table takes as long as it takes, within reason. */
const migrationBounds: PostgresBounds = {
  connectionsMax: 1,
  statementTimeoutMs: 600_000,
  answerTimeoutMs: 602_000,
};

/** A frozen gateway must not keep the row locks of a wallet. */
const idleTransactionMs = 15_000;

const oldestServer = 150_000;

/** Opens a pool and proves that a server answers. The password never appears in an error. */
export async function openPostgres(
  url: string,
  bounds: PostgresBounds = usualBounds,
): Promise<Database> {
  const target = describe(url);
  const pool = createPool(url, bounds);
  const db = new Kysely<Schema>({ dialect: new PostgresDialect({ pool: watched(pool) }) });
  try {
    await requireServer(db, target);
  } catch (thrown) {
    await pool.end();
    throw thrown instanceof GatewayError ? thrown : unreachable(target, thrown);
  }
  return {
    engine: 'postgres',
    read: db,
    write: db,
    book: (batch) => {
      const read = readBatch(batch);
      return db.transaction().execute((change) => commitBatch(change, 'postgres', read));
    },
    ping: async () => {
      await sql`select 1`.execute(db);
    },
    close: () => pool.end(),
  };
}

/** A connection of its own for schema steps, which may take far longer than any other statement. */
export async function withMigrationConnection<T>(
  url: string,
  work: (db: Kysely<Schema>) => Promise<T>,
): Promise<T> {
  const pool = createPool(url, migrationBounds);
  try {
    return await work(new Kysely<Schema>({ dialect: new PostgresDialect({ pool }) }));
  } finally {
    await pool.end();
  }
}

function createPool(url: string, bounds: PostgresBounds): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    application_name: 'tollgate',
    max: bounds.connectionsMax,
    connectionTimeoutMillis: turnWaitMs,
    statement_timeout: bounds.statementTimeoutMs,
    query_timeout: bounds.answerTimeoutMs,
    idle_in_transaction_session_timeout: idleTransactionMs,
    keepAlive: true,
    types: exactNumbers(),
  });
  // A server that restarts cuts connections, idle ones and those between two statements; the pool
  // drops them and the next statement fails. Without listeners the event would end the process.
  pool.on('error', () => {});
  pool.on('connect', (client) => {
    client.on('error', () => {});
  });
  return pool;
}

/** Numbers come as text from Postgres; money must be exact or fail loudly. */
function exactNumbers(): pg.TypeOverrides {
  const types = new pg.TypeOverrides();
  types.setTypeParser(pg.types.builtins.INT8, wholeNumber);
  // The sum of whole numbers is a `numeric`.
  types.setTypeParser(pg.types.builtins.NUMERIC, wholeNumber);
  const parseBytes = pg.types.getTypeParser(pg.types.builtins.BYTEA);
  types.setTypeParser(pg.types.builtins.BYTEA, (text) => new Uint8Array(parseBytes(text)));
  return types;
}

function wholeNumber(text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value)) return value;
  throw new Error('A stored number is too large to be read exactly.');
}

async function requireServer(db: Kysely<Schema>, target: string): Promise<void> {
  const { rows } = await sql<{ version: string; commit: string }>`
    select current_setting('server_version_num') as version,
      current_setting('synchronous_commit') as commit
  `.execute(db);
  const refuse = (why: string) => {
    throw new GatewayError('service_unavailable', `Postgres at ${target} ${why}.`);
  };
  if (!(Number(rows[0]?.version) >= oldestServer)) {
    refuse(`is too old: Tollgate needs version ${oldestServer / 10_000} or newer`);
  }
  // The journal lets go of what was committed, so a commit has to last.
  if (rows[0]?.commit === 'off') {
    refuse('has synchronous_commit off, so a crash would lose charges: turn it on');
  }
}

/** `host:port/database`, as the driver itself understands the address. */
function describe(url: string): string {
  try {
    const { host, port, database } = new pg.Client({ connectionString: url });
    return `${host}:${port}/${database ?? ''}`;
  } catch {
    // The driver's own message repeats the address, password and all.
    throw new GatewayError(
      'service_unavailable',
      'The database address is not a valid postgres:// URL.',
    );
  }
}

const reasons: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the connection was cut',
  ENOTFOUND: 'the host name is unknown',
  EAI_AGAIN: 'the host name cannot be looked up',
  ENOENT: 'there is no such socket',
  ETIMEDOUT: 'no answer',
  EHOSTUNREACH: 'the host cannot be reached',
  '28P01': 'user or password refused',
  '28000': 'the login was refused',
  '3D000': 'the database does not exist',
  '53300': 'it has too many connections already',
  '57P03': 'it is starting up or shutting down',
};

function unreachable(target: string, thrown: unknown): GatewayError {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const reason = reasons[failureCode(thrown) ?? ''] ?? message;
  return new GatewayError(
    'service_unavailable',
    `Postgres at ${target} cannot be reached: ${reason}.`,
    { cause: thrown },
  );
}
