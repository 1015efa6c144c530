import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import { GatewayError } from '../../core/errors.ts';
import { readBatch } from '../../ledger/slip.ts';
import { commitBatch } from '../books/commit.ts';
import { type Database, turnWaitMs } from '../database.ts';
import type { Schema } from '../schema.ts';
import { type PostgresAddress, readAddress, refusal } from './address.ts';
import { isServerFull, watched } from './pool.ts';
import { requireServer, requireWritable } from './server.ts';

interface PostgresBounds {
  readonly connectionsMax: number;
  readonly statementTimeoutMs: number;
  /** A frozen server cannot time out by itself: the client gives up, a little later. */
  readonly answerTimeoutMs: number;
  /** Between two statements of a transaction. */
  readonly idleTransactionMs: number;
}

/**
 * A frozen gateway must not keep the row locks of a wallet: others wait five seconds for credits.
 * Where a living gateway pauses that long, its transaction is undone; bookings and jobs try again.
 */
const idleTransactionMs = 3_000;

/**
 * Enough connections for the drain, the management API and look-ups, and few enough that ten
 * processes fit a server with its default of a hundred.
 */
const usualBounds: PostgresBounds = {
  connectionsMax: 9,
  statementTimeoutMs: 10_000,
  answerTimeoutMs: 12_000,
  idleTransactionMs,
};

/**
 * A schema step over a large table takes as long as it takes, within reason. A move reads from
 * another database in between.
 */
const migrationBounds: PostgresBounds = {
  connectionsMax: 1,
  statementTimeoutMs: 600_000,
  answerTimeoutMs: 602_000,
  idleTransactionMs: 15_000,
};

/** A server takes a moment to end a session that we have left, and it may allow us only one. */
const leavingMs = 1_000;

/**
 * Opens a pool and proves that a server answers. A pooler in between may take no settings for a
 * session: then statements outside of transactions are bounded by the client alone.
 */
export async function openPostgres(
  url: string,
  bounds: PostgresBounds = usualBounds,
): Promise<Database> {
  const address = readAddress(url);
  try {
    return await open(address, bounds, sessionBounds(bounds));
  } catch (thrown) {
    if (!isRefusedSetting(thrown)) throw thrown;
    return open(address, bounds, {});
  }
}

/** For statements outside of transactions, whatever the server, database or role have set. */
function sessionBounds({ statementTimeoutMs: ms }: PostgresBounds): pg.PoolConfig {
  return { statement_timeout: ms, lock_timeout: ms };
}

async function open(
  { url, target }: PostgresAddress,
  bounds: PostgresBounds,
  settings: pg.PoolConfig,
): Promise<Database> {
  const pool = createPool(url, bounds, settings);
  const dialect = new PostgresDialect({ pool: watched(pool, beginning(bounds)) });
  const db = new Kysely<Schema>({ dialect });
  try {
    await whenThereIsRoom(() => requireServer(db, target));
  } catch (thrown) {
    await pool.end();
    throw thrown instanceof GatewayError ? thrown : refusal(target, 'cannot be reached', thrown);
  }
  return {
    engine: 'postgres',
    read: db,
    report: db,
    write: db,
    book: (batch) => {
      const read = readBatch(batch);
      return db.transaction().execute((change) => commitBatch(change, 'postgres', read));
    },
    ping: () => requireWritable(db, target),
    close: () => pool.end(),
  };
}

async function whenThereIsRoom(work: () => Promise<void>): Promise<void> {
  const until = performance.now() + leavingMs;
  for (;;) {
    try {
      return await work();
    } catch (thrown) {
      if (!isServerFull(thrown) || performance.now() > until) throw thrown;
      await Bun.sleep(20);
    }
  }
}

function isRefusedSetting(thrown: unknown): boolean {
  const cause = thrown instanceof GatewayError ? thrown.cause : undefined;
  return cause instanceof Error && cause.message.startsWith('unsupported startup parameter');
}

/** A connection of its own for schema steps, which may take far longer than any other statement. */
export async function withMigrationConnection<T>(
  url: string,
  work: (db: Kysely<Schema>) => Promise<T>,
  failing = 'could not be given its tables',
): Promise<T> {
  const database = await openPostgres(url, migrationBounds);
  try {
    return await work(database.write);
  } catch (thrown) {
    if (thrown instanceof GatewayError) throw thrown;
    throw refusal(readAddress(url).target, failing, thrown);
  } finally {
    await database.close();
  }
}

/**
 * Sets how our transactions see each other and how long they may take, whatever the server, the
 * database or the role have set. Each transaction says so, which works behind a pooler too. Servers
 * before 17 have no limit for a whole transaction, and refuse its name.
 */
function beginning({ statementTimeoutMs, idleTransactionMs }: PostgresBounds): string {
  return `begin isolation level read committed; set local lock_timeout = 0;
    set local statement_timeout = ${statementTimeoutMs};
    set local idle_in_transaction_session_timeout = ${idleTransactionMs};
    select set_config('transaction_timeout', '0', true)
      where current_setting('transaction_timeout', true) is not null`;
}

function createPool(url: string, bounds: PostgresBounds, settings: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool({
    ...settings,
    connectionString: url,
    application_name: 'tollgate',
    max: bounds.connectionsMax,
    connectionTimeoutMillis: turnWaitMs,
    query_timeout: bounds.answerTimeoutMs,
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
