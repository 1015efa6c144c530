import { mkdirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { sql } from 'kysely';
import type { Directory } from '../auth/directory.ts';
import type { CreditStore } from '../auth/management/credits.ts';
import type { KeySpending } from '../auth/management/keys.ts';
import type { RotationStore } from '../auth/secret-rotation.ts';
import type { VaultStore } from '../auth/vault.ts';
import type { ClaimStore } from '../cache/idempotency.ts';
import { failureCode, GatewayError } from '../core/errors.ts';
import type { JobObjects, JobQueue, JobStore, WebhookQueue } from '../jobs/queue.ts';
import type { LedgerStore } from '../money/ledger.ts';
import type { AnalyticsReads, SplitReads, TenantSumReads } from '../records/analytics.ts';
import type { AllTenantsLog, LogReads, RequestLog } from '../records/request-log.ts';
import type { MonthReads, StatementReads, WalletReads } from '../records/statement.ts';
import type { SkillStore } from '../tools/skills/skill.ts';
import type { Database } from './database.ts';
import { SqlCredentials } from './directory/credentials.ts';
import { SqlDirectory } from './directory/directory.ts';
import { SqlSkills } from './directory/skills.ts';
import { isLoginRefused, storeError, toUnreachableError } from './errors.ts';
import { SqlIdempotencyClaims } from './idempotency-claims.ts';
import { SqlJobBook } from './jobs/jobs.ts';
import { SqlJobObjects } from './jobs/objects.ts';
import { SqlJobQueue, SqlWebhooks } from './jobs/queue.ts';
import { SqlCreditBook } from './ledger/accounts.ts';
import { SqlLedger } from './ledger/ledger.ts';
import { SqlRequestLog } from './ledger/request-log.ts';
import { migrate } from './migrations/migrate.ts';
import { allTables } from './move.ts';
import { SqlAnalytics, SqlAnalyticsSplit } from './reports/analytics.ts';
import { SqlLogReads } from './reports/logs.ts';
import { SqlStatement, SqlStatementMonths } from './reports/statement.ts';
import { SqlKeySpending, SqlTenantSums, SqlWalletTotals } from './reports/totals.ts';
import type { Schema } from './schema.ts';
import { fileFailure } from './sqlite/database-file.ts';
import { openSqlite, openSqliteReadOnly } from './sqlite/sqlite.ts';

/** An open, up-to-date database and everything that is kept in it. */
export interface Store {
  readonly database: Database;
  readonly directory: Directory;
  readonly credentials: VaultStore & RotationStore;
  readonly skills: SkillStore;
  readonly creditBook: CreditStore;
  readonly ledger: LedgerStore;
  readonly requestLog: RequestLog & AllTenantsLog;
  readonly logs: LogReads;
  readonly analytics: AnalyticsReads;
  readonly splits: SplitReads;
  readonly statements: StatementReads;
  readonly statementMonths: MonthReads;
  readonly keySpending: KeySpending;
  readonly tenantSums: TenantSumReads;
  readonly walletTotals: WalletReads;
  readonly jobs: JobStores;
  readonly claims: ClaimStore;
}

/**
 * `sqlite:/path/file.db` or `postgres://user:password@host/name`. A file that is not there is made,
 * unless it must exist: in a mistyped folder, `ledger verify` would find new and empty books right.
 */
export async function openStore(url: string, mustExist = false): Promise<Store> {
  const database = await openDatabase(url, mustExist);
  const reports: Database = { ...database, read: database.report };
  return {
    database,
    directory: new SqlDirectory(database),
    credentials: new SqlCredentials(database),
    skills: new SqlSkills(database),
    creditBook: new SqlCreditBook(database),
    ledger: new SqlLedger(database),
    requestLog: new SqlRequestLog(database),
    logs: new SqlLogReads(reports),
    analytics: new SqlAnalytics(reports),
    splits: new SqlAnalyticsSplit(reports),
    statements: new SqlStatement(reports),
    statementMonths: new SqlStatementMonths(reports),
    keySpending: new SqlKeySpending(reports),
    tenantSums: new SqlTenantSums(reports),
    walletTotals: new SqlWalletTotals(reports),
    jobs: openJobStores(database),
    claims: new SqlIdempotencyClaims(database),
  };
}

/**
 * The database as it stands, beside whoever uses it: nothing is made, migrated or changed.
 * Undefined where there is no file yet.
 */
export async function openReadOnly(url: string): Promise<Database | undefined> {
  if (!url.startsWith('sqlite:')) {
    const { openPostgres } = await import('./postgres/postgres.ts');
    return openPostgres(url);
  }
  const path = filePathOf(url);
  return isNonEmptyFile(path) ? openSqliteReadOnly(path) : undefined;
}

async function openDatabase(url: string, mustExist: boolean): Promise<Database> {
  if (url.startsWith('sqlite:')) return openFile(filePathOf(url), mustExist);
  if (/^postgres(ql)?:\/\//.test(url)) return openServer(url);
  // The address may hold a password under a mistyped scheme, so it is not repeated.
  throw storeError('The database address must start with sqlite: or postgres://.');
}

/** The path of a `sqlite:` address. A name that begins with a colon would mean the memory. */
function filePathOf(url: string): string {
  const name = url.slice('sqlite:'.length);
  if (name !== '' && !name.startsWith(':')) return resolve(name);
  throw storeError('The sqlite: address must name a file.');
}

async function openFile(path: string, mustExist: boolean): Promise<Database> {
  if (mustExist && !isNonEmptyFile(path)) {
    throw storeError(
      `There is no database at ${path}: name its folder with --data-dir, or start a gateway once.`,
    );
  }
  try {
    // The file holds everybody's records: its folder is closed to other users of the machine.
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  } catch (error) {
    throw fileFailure(path, error);
  }
  const database = await openSqlite(path);
  try {
    await migrate(database.write, 'sqlite');
    await requireTables(database);
    return database;
  } catch (error) {
    await database.close();
    throw failureCode(error)?.startsWith('SQLITE_') ? fileFailure(path, error) : error;
  }
}

/** SQLite takes an empty file for a new database. */
function isNonEmptyFile(path: string): boolean {
  try {
    const file = statSync(path, { throwIfNoEntry: false });
    return file !== undefined && file.size > 0;
  } catch (error) {
    throw fileFailure(path, error);
  }
}

async function openServer(url: string): Promise<Database> {
  // Imported only here: most gateways run on a file and need no Postgres driver in memory.
  const { openPostgres, withMigrationConnection } = await import('./postgres/postgres.ts');
  const { parseAddress: readAddress, postgresError: refusal } = await import(
    './postgres/connection.ts'
  );
  // One after the other: a role may be allowed a single connection.
  await withMigrationConnection(url, (db) => migrate(db, 'postgres'));
  const database = await openPostgres(url);
  try {
    await requireTables(database);
    return database;
  } catch (error) {
    await database.close();
    if (error instanceof GatewayError) throw error;
    // Told like any other loss of the server, which a start waits out.
    throw refusal(readAddress(url).target, 'cannot be reached', error);
  }
}

/**
 * Refuses a database that is up to date and has lost a table, after a partial restore for example,
 * or whose user may not use one: a gateway would serve on it and book nothing.
 */
export async function requireTables(database: Database): Promise<void> {
  const found =
    database.engine === 'sqlite' ? await tablesInFile(database) : await tablesOnServer(database);
  const lost = allTables.find((name) => !found.has(name));
  if (lost !== undefined) {
    throw storeError(
      `The database has lost its table ${lost}: restore a backup of all its tables.`,
    );
  }
  const forbidden = allTables.find((name) => found.get(name) === false);
  if (forbidden === undefined) return;
  throw storeError(
    `This user of the database may not read and change its table ${forbidden}: grant it SELECT, ` +
      'INSERT, UPDATE and DELETE on all tables.',
  );
}

/** The tables that there are, and whether we may use them. */
type Tables = ReadonlyMap<string, boolean>;

async function tablesInFile({ read }: Database): Promise<Tables> {
  const query = sql<{ name: string }>`select name from sqlite_master where type = 'table'`;
  const { rows } = await query.execute(read);
  return new Map(rows.map(({ name }) => [name, true]));
}

/** Only a role that migrates changes the list of migrations. */
const rightsOn = (table: keyof Schema): string =>
  table === 'migrations' ? 'select' : 'select,insert,update,delete';

async function tablesOnServer({ read }: Database): Promise<Tables> {
  const required = sql.join(allTables.map((name) => sql`(${name}::text, ${rightsOn(name)}::text)`));
  // Asked for one right after the other: of a list, Postgres is content with any.
  const { rows } = await sql<{ name: string; is_open: boolean }>`
    select wanted.name, bool_and(has_table_privilege(pg_class.oid, one)) as is_open
    from (values ${required}) as wanted (name, rights)
    join pg_class on pg_class.relname = wanted.name and pg_class.relkind in ('r', 'p')
    join pg_namespace on pg_namespace.oid = pg_class.relnamespace
    cross join lateral unnest(string_to_array(wanted.rights, ',')) as one
    where pg_namespace.nspname = current_schema()
    group by wanted.name
  `.execute(read);
  return new Map(rows.map(({ name, is_open }) => [name, is_open]));
}

/** Between two attempts; short, so that a server that has just come up is found at once. */
const retryMs = 500;
/** Service managers take a process for dead that has been silent for a few times this long. */
const reportEveryMs = 5_000;
/** A file that stays locked is being migrated elsewhere: one step of that may take this long. */
const lockedWaitMs = 600_000;
const migratingMessage = 'Its tables are being brought up to date.';

interface WaitOptions {
  /** After this long the address is more likely wrong than the server slow. */
  readonly waitBudgetMs: number;
  /** Called after every attempt, and again and again while one takes long, with one sentence. */
  onUnreachable(reason: string): void;
  /** Ends the waiting. */
  readonly stopped: Promise<void>;
}

/**
 * The store, as soon as its server answers or its file is free; undefined when the wait was
 * stopped. Rejects when the wait is over, and at once when the store is there and cannot be used.
 */
export async function openWhenReachable(
  url: string,
  { waitBudgetMs, onUnreachable, stopped }: WaitOptions,
): Promise<Store | undefined> {
  const isFile = url.startsWith('sqlite:');
  const isRetryable = isFile ? isLocked : mayBecomeReachable;
  const untilStopped = stoppable(stopped);
  const until = performance.now() + (isFile ? lockedWaitMs : waitBudgetMs);
  for (;;) {
    try {
      // Only the wait for the server can be stopped; migrations always run to their end.
      if (!isFile && (await untilStopped(probe(url)))) return undefined;
      return await openWithProgress(url, onUnreachable);
    } catch (error) {
      if (!isRetryable(error) || performance.now() >= until) throw error;
      onUnreachable(error.message);
    }
    if (await untilStopped(Bun.sleep(retryMs))) return undefined;
  }
}

/**
 * A new index over a large log takes minutes, here or in the process that has the lock. Where
 * `tell` throws, because somebody else has our port, the end is not waited for.
 */
async function openWithProgress(url: string, report: (reason: string) => void): Promise<Store> {
  const failedReport = Promise.withResolvers<never>();
  const timer = setInterval(() => {
    try {
      report(migratingMessage);
    } catch (error) {
      failedReport.reject(error);
    }
  }, reportEveryMs);
  try {
    return await Promise.race([openStore(url), failedReport.promise]);
  } finally {
    clearInterval(timer);
  }
}

/**
 * Waits for one turn after the other: false when the turn ended, true when the wait was stopped.
 * Promise.race would add a handler to `stopped` in every turn, and a server may be away for days.
 */
function stoppable(stopped: Promise<void>): (step: Promise<void>) => Promise<boolean> {
  let isStopped = false;
  let stop = () => {};
  const onStop = () => {
    isStopped = true;
    stop();
  };
  stopped.then(onStop, onStop);
  return (step) => {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    stop = () => resolve(true);
    step.then(() => resolve(false), reject);
    if (isStopped) stop();
    return promise;
  };
}

async function probe(url: string): Promise<void> {
  const { openPostgres } = await import('./postgres/postgres.ts');
  await (await openPostgres(url)).close();
}

/** Whether waiting may help: nobody answers yet, or the server says that it is starting. */
function mayBecomeReachable(error: unknown): error is GatewayError {
  if (!(error instanceof GatewayError) || isLoginRefused(error.cause)) return false;
  const isSocketMissing = failureCode(error.cause) === 'ENOENT';
  return isSocketMissing || toUnreachableError(error.cause) !== undefined;
}

/** Locked by a change, or by a repair after a crash, for longer than SQLite itself waits. */
function isLocked(error: unknown): error is GatewayError {
  const code = error instanceof GatewayError ? failureCode(error.cause) : undefined;
  return code?.startsWith('SQLITE_BUSY') ?? false;
}

/** Everything about jobs that is kept in the database. */
export interface JobStores {
  readonly book: JobStore;
  readonly queue: JobQueue;
  readonly objects: JobObjects;
  readonly webhooks: WebhookQueue;
}

function openJobStores(database: Database): JobStores {
  return {
    book: new SqlJobBook(database),
    queue: new SqlJobQueue(database),
    objects: new SqlJobObjects(database),
    webhooks: new SqlWebhooks(database),
  };
}
