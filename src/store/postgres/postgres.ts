import { strict as assert } from 'node:assert';
import { Kysely, PostgresDialect, sql } from 'kysely';
import pg from 'pg';
import { GatewayError } from '../../core/errors.ts';
import { parseBatch } from '../../money/ledger.ts';
import { callWaitMs, type Database } from '../database.ts';
import { storeError } from '../errors.ts';
import { commitBatch } from '../ledger/commit.ts';
import type { Schema } from '../schema.ts';
import {
  boundedPool,
  isServerFull,
  type PostgresAddress,
  parseAddress,
  postgresError,
} from './connection.ts';

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
const defaultBounds: PostgresBounds = {
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
const sessionEndMs = 1_000;

/**
 * Opens a pool and proves that a server answers. A pooler in between may take no settings for a
 * session: then statements outside of transactions are bounded by the client alone.
 */
export async function openPostgres(
  url: string,
  bounds: PostgresBounds = defaultBounds,
): Promise<Database> {
  const address = parseAddress(url);
  try {
    return await open(address, bounds, sessionBounds(bounds));
  } catch (error) {
    if (!isRefusedSetting(error)) throw error;
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
  const dialect = new PostgresDialect({ pool: boundedPool(pool, beginStatement(bounds)) });
  const db = new Kysely<Schema>({ dialect });
  try {
    await retryWhileServerFull(() => requireServer(db, target));
  } catch (error) {
    await pool.end();
    throw error instanceof GatewayError ? error : postgresError(target, 'cannot be reached', error);
  }
  return {
    engine: 'postgres',
    read: db,
    report: db,
    write: db,
    commitBatch: (batch) => {
      const read = parseBatch(batch);
      return db.transaction().execute((trx) => commitBatch(trx, 'postgres', read));
    },
    ping: () => requireWritable(db, target),
    close: () => pool.end(),
  };
}

async function retryWhileServerFull(work: () => Promise<void>): Promise<void> {
  const until = performance.now() + sessionEndMs;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isServerFull(error) || performance.now() > until) throw error;
      await Bun.sleep(20);
    }
  }
}

function isRefusedSetting(error: unknown): boolean {
  const cause = error instanceof GatewayError ? error.cause : undefined;
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
  } catch (error) {
    if (error instanceof GatewayError) throw error;
    throw postgresError(parseAddress(url).target, failing, error);
  } finally {
    await database.close();
  }
}

/**
 * Sets how our transactions see each other and how long they may take, whatever the server, the
 * database or the role have set. Each transaction says so, which works behind a pooler too. Servers
 * before 17 have no limit for a whole transaction, and refuse its name.
 */
function beginStatement({ statementTimeoutMs, idleTransactionMs }: PostgresBounds): string {
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
    connectionTimeoutMillis: callWaitMs,
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
  types.setTypeParser(pg.types.builtins.INT8, safeInteger);
  // The sum of whole numbers is a `numeric`.
  types.setTypeParser(pg.types.builtins.NUMERIC, safeInteger);
  const parseBytes = pg.types.getTypeParser(pg.types.builtins.BYTEA);
  types.setTypeParser(pg.types.builtins.BYTEA, (text) => new Uint8Array(parseBytes(text)));
  return types;
}

function safeInteger(text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value)) return value;
  throw new Error('A stored number is too large to be read exactly.');
}

const minServerVersion = 150_000;

/** Refuses, at the start, a server that cannot keep books: later statements would not show it. */
export async function requireServer(db: Kysely<Schema>, target: string): Promise<void> {
  const { version, commit, encoding, only_reads } = await settingsOf(db, target);
  const refuse = (reason: string) => {
    throw storeError(`Postgres at ${target} ${reason}.`);
  };
  if (!(Number(version) >= minServerVersion)) {
    refuse(`is too old: Tollgate needs version ${minServerVersion / 10_000} or newer`);
  }
  // The journal lets go of what was committed, so a commit has to last.
  if (commit === 'off') {
    refuse('has synchronous_commit off, so a crash would lose charges: turn it on');
  }
  if (!unicodeEncodings.has(encoding)) {
    refuse(`keeps this database in ${encoding}: Tollgate needs one with the encoding UTF8`);
  }
  if (only_reads === 'on') throw readOnlyError(target);
}

/** After a failover the same address may lead to a replica, which answers and books nothing. */
export async function requireWritable(db: Kysely<Schema>, target: string): Promise<void> {
  const { rows } = await sql<Pick<ServerSettings, 'only_reads'>>`
    select current_setting('transaction_read_only') as only_reads
  `.execute(db);
  if (rows[0]?.only_reads === 'on') throw readOnlyError(target);
}

/** A replica may be promoted soon, so that this is worth waiting for. */
function readOnlyError(target: string): GatewayError {
  const message =
    `Postgres at ${target} only reads: it is a replica, or ` +
    'default_transaction_read_only is on.';
  return storeError(message, new ReadOnlyServer());
}

/** The error that the server itself would give at the first change. */
class ReadOnlyServer extends Error {
  readonly code = '25006';

  constructor() {
    super('SQLSTATE 25006');
  }
}

/** Encodings that take every character: SQL_ASCII knows no characters and keeps bytes. */
const unicodeEncodings: ReadonlySet<string> = new Set(['UTF8', 'SQL_ASCII']);

interface ServerSettings {
  readonly version: string;
  readonly commit: string;
  readonly encoding: string;
  readonly only_reads: string;
}

/** Asked in a transaction: behind a pooler that has no transactions, nothing can be booked. */
async function settingsOf(db: Kysely<Schema>, target: string): Promise<ServerSettings> {
  const query = sql<ServerSettings>`
    select current_setting('server_version_num') as version,
      current_setting('synchronous_commit') as commit,
      current_setting('server_encoding') as encoding,
      current_setting('transaction_read_only') as only_reads
  `;
  try {
    const { rows } = await db.transaction().execute((trx) => query.execute(trx));
    const [settings] = rows;
    assert(settings, 'A select without a table gives one row.');
    return settings;
  } catch (error) {
    if (!(error instanceof Error && /statement pooling mode/.test(error.message))) throw error;
    throw storeError(
      `Postgres at ${target} is behind a pooler in statement mode, which has no transactions: ` +
        'use its transaction or session mode.',
    );
  }
}
