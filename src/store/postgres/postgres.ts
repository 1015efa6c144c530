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
import { PostgresLogPartitions } from './log-partitions.ts';
import { commitRowsFirst, isShortfall } from './rows-first.ts';

interface PostgresBounds {
  readonly connectionsMax: number;
  readonly statementTimeoutMs: number;
  /** A frozen server can't time out by itself, so the client gives up a little later. */
  readonly answerTimeoutMs: number;
  /** The limit between two statements of a transaction. */
  readonly idleTransactionMs: number;
}

/**
 * A frozen gateway must not keep the row locks of a wallet, because other processes wait only 5
 * seconds for credits. If a running gateway pauses this long, its transaction is rolled back and
 * retried.
 */
const idleTransactionMs = 3_000;

/**
 * Enough connections for settlements, the management API, and lookups, and few enough for 10
 * processes on a server with the default limit of 100 connections.
 */
const defaultBounds: PostgresBounds = {
  connectionsMax: 9,
  statementTimeoutMs: 10_000,
  answerTimeoutMs: 12_000,
  idleTransactionMs,
};

/**
 * A migration of a large table takes minutes. A move reads from another database between two
 * statements.
 */
const migrationBounds: PostgresBounds = {
  connectionsMax: 1,
  statementTimeoutMs: 600_000,
  answerTimeoutMs: 602_000,
  idleTransactionMs: 15_000,
};

/** Reading a large log once may take hours. */
const unlimitedBounds: PostgresBounds = {
  ...migrationBounds,
  statementTimeoutMs: 86_400_000,
  answerTimeoutMs: 86_402_000,
};

/** A server takes a moment to end a closed session, and may allow this user only one. */
const sessionEndMs = 1_000;

/**
 * Opens a pool and checks that the server responds. If a pooler in between rejects session
 * settings, only the client limits statements outside of transactions.
 */
export async function openPostgres(
  url: string,
  bounds: PostgresBounds = defaultBounds,
): Promise<Database> {
  const address = parseAddress(url);
  try {
    return await open(address, bounds, sessionBounds(bounds));
  } catch (error) {
    if (!isRejectedSetting(error)) throw error;
    return open(address, bounds, {});
  }
}

/** Limits for statements outside of transactions, overriding those of the server and the role. */
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
  const logPartitions = new PostgresLogPartitions(db, async (work) => {
    const database = await openPostgres(url, unlimitedBounds);
    return work(database.write).finally(() => database.close());
  });
  return {
    engine: 'postgres',
    logPartitions,
    read: db,
    report: db,
    write: db,
    commitBatch: async (batch) => {
      const parsed = parseBatch(batch);
      const transaction = db.transaction();
      if (!batch.mayRepeat) {
        try {
          return await transaction.execute((trx) => commitRowsFirst(trx, parsed));
        } catch (error) {
          if (!isShortfall(error)) throw error;
        }
      }
      return transaction.execute((trx) => commitBatch(trx, 'postgres', parsed));
    },
    ping: () => requireWritable(db, target),
    close: () => {
      logPartitions.stop();
      return pool.end();
    },
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

function isRejectedSetting(error: unknown): boolean {
  const cause = error instanceof GatewayError ? error.cause : undefined;
  return cause instanceof Error && cause.message.startsWith('unsupported startup parameter');
}

/** Runs work on a separate connection with long time limits, for migrations. */
export async function withMigrationConnection<T>(
  url: string,
  work: (db: Kysely<Schema>) => Promise<T>,
  failing = "couldn't be migrated",
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
 * Returns the SQL that begins a transaction with our isolation level and time limits, overriding
 * those of the server and the role. Setting them per transaction also works behind a pooler.
 * Servers before 17 have no transaction_timeout and reject its name.
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
  // A restarting server closes idle connections, even between two statements of a transaction. The
  // pool drops them, and the next statement fails. Without these listeners, the event would end the
  // process.
  pool.on('error', () => {});
  pool.on('connect', (client) => {
    client.on('error', () => {});
  });
  return pool;
}

/** Postgres sends numbers as text. Amounts must be exact or fail loudly. */
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

/**
 * Rejects a server that can't keep a ledger. Runs at startup, because later statements wouldn't
 * reveal the problem.
 */
export async function requireServer(db: Kysely<Schema>, target: string): Promise<void> {
  const { version, commit, encoding, only_reads } = await settingsOf(db, target);
  const reject = (reason: string) => {
    throw storeError(`Postgres at ${target} ${reason}.`);
  };
  if (!(Number(version) >= minServerVersion)) {
    reject(`is too old: Tollgate needs version ${minServerVersion / 10_000} or newer`);
  }
  // The journal drops what was committed, so a commit must be durable.
  if (commit === 'off') {
    reject('has synchronous_commit off, so a crash would lose charges: turn it on');
  }
  if (!unicodeEncodings.has(encoding)) {
    reject(`uses the encoding ${encoding} for this database, but Tollgate requires UTF8`);
  }
  if (only_reads === 'on') throw readOnlyError(target);
}

/** Rejects a replica. After a failover, the URL may lead to one. */
export async function requireWritable(db: Kysely<Schema>, target: string): Promise<void> {
  const { rows } = await sql<Pick<ServerSettings, 'only_reads'>>`
    select current_setting('transaction_read_only') as only_reads
  `.execute(db);
  if (rows[0]?.only_reads === 'on') throw readOnlyError(target);
}

/** Retryable, because a replica may be promoted soon. */
function readOnlyError(target: string): GatewayError {
  const message =
    `Postgres at ${target} is read-only: it is a replica, or ` +
    'default_transaction_read_only is on.';
  return storeError(message, new ReadOnlyServer());
}

/** The error that the server itself would raise at the first write. */
class ReadOnlyServer extends Error {
  readonly code = '25006';

  constructor() {
    super('SQLSTATE 25006');
  }
}

/** Encodings that store every character. SQL_ASCII stores bytes. */
const unicodeEncodings: ReadonlySet<string> = new Set(['UTF8', 'SQL_ASCII']);

interface ServerSettings {
  readonly version: string;
  readonly commit: string;
  readonly encoding: string;
  readonly only_reads: string;
}

/** Reads settings in a transaction, which fails behind a pooler without transactions. */
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
    assert(settings, 'The query must return a row.');
    return settings;
  } catch (error) {
    if (!(error instanceof Error && /statement pooling mode/.test(error.message))) throw error;
    throw storeError(
      `Postgres at ${target} is behind a pooler in statement mode, which has no transactions: ` +
        'use its transaction or session mode.',
    );
  }
}
