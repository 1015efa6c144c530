import { mkdirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { sql } from 'kysely';
import type { CreditStore } from '../auth/management/credits.ts';
import type { KeySpending } from '../auth/management/keys.ts';
import type { RotationStore } from '../auth/secret-rotation.ts';
import type { TenantDirectory } from '../auth/tenant-directory.ts';
import type { VaultStore } from '../auth/vault.ts';
import type { ClaimStore } from '../cache/idempotency.ts';
import type { Config } from '../config/config.ts';
import type { AuditReads, AuditWrites } from '../control/audit.ts';
import type { ConfigStore } from '../control/config-store.ts';
import { failureCode, GatewayError } from '../core/errors.ts';
import type { JobObjects, JobQueue, JobStore, WebhookQueue } from '../jobs/queue.ts';
import type { WebhookRotations } from '../jobs/webhook-signer.ts';
import type { LedgerStore } from '../money/ledger.ts';
import type { AnalyticsReads, TenantSumReads, UsageGroupReads } from '../records/analytics.ts';
import type { AllTenantsLog, LogReads, RequestLog } from '../records/customer-log.ts';
import type { RunningRequestStore } from '../records/running-requests.ts';
import type { MonthReads, StatementReads, WalletReads } from '../records/statement.ts';
import type { Log } from '../telemetry/log.ts';
import type { SkillStore } from '../tools/skills/skill.ts';
import { SqlAuditLog } from './audit-log.ts';
import { SqlConfigObjects } from './config-objects.ts';
import type { Database, ReadOnlyDatabase } from './database.ts';
import { isLoginRejected, storeError, toOutageError } from './errors.ts';
import { SqlIdempotencyClaims } from './idempotency-claims.ts';
import { SqlJobs } from './jobs/jobs.ts';
import { SqlJobObjects } from './jobs/object-registry.ts';
import { SqlJobQueue, SqlWebhooks } from './jobs/queue.ts';
import { SqlWebhookRotations } from './jobs/webhook-rotations.ts';
import { SqlCredits } from './ledger/accounts.ts';
import { SqlLedger } from './ledger/ledger.ts';
import { SqlRequestLog } from './ledger/request-log.ts';
import { migrate } from './migrations/migrate.ts';
import { SqlAnalytics, SqlUsageGroups } from './reports/analytics.ts';
import { SqlLogReads } from './reports/logs.ts';
import { SqlRunningRequests } from './reports/running-requests.ts';
import { SqlStatement, SqlStatementMonths } from './reports/statement.ts';
import { SqlKeySpending, SqlTenantSums, SqlWalletTotals } from './reports/totals.ts';
import { allTables, type Table } from './schema.ts';
import { fileFailure } from './sqlite/database-file.ts';
import { openSqlite, openSqliteReadOnly } from './sqlite/sqlite.ts';
import { SqlCredentials } from './tenants/credentials.ts';
import { SqlSkills } from './tenants/skills.ts';
import { SqlTenantDirectory } from './tenants/tenant-directory.ts';

/** An open, migrated database and the repositories on it. */
export interface Store {
  readonly database: Database;
  readonly directory: TenantDirectory;
  readonly credentials: VaultStore & RotationStore;
  readonly skills: SkillStore;
  readonly creditStore: CreditStore;
  readonly ledger: LedgerStore;
  readonly requestLog: RequestLog & AllTenantsLog;
  readonly runningRequests: RunningRequestStore;
  readonly logs: LogReads;
  readonly analytics: AnalyticsReads;
  readonly usageGroups: UsageGroupReads;
  readonly statements: StatementReads;
  readonly statementMonths: MonthReads;
  readonly keySpending: KeySpending;
  readonly tenantSums: TenantSumReads;
  readonly walletTotals: WalletReads;
  readonly jobs: JobStores;
  readonly claims: ClaimStore;
  readonly configObjects: ConfigStore;
  readonly auditLog: AuditReads & AuditWrites;
}

/**
 * Opens `sqlite:/path/file.db` or `postgres://user:password@host/name`. Creates a missing file
 * unless `mustExist` is set. Most commands set it. Otherwise, `ledger verify` with a mistyped
 * folder would create an empty ledger and report it as correct.
 */
export async function openStore(url: string, mustExist = false): Promise<Store> {
  const database = await openDatabase(url, mustExist);
  const reports: Database = { ...database, read: database.report };
  return {
    database,
    directory: new SqlTenantDirectory(database),
    credentials: new SqlCredentials(database),
    skills: new SqlSkills(database),
    creditStore: new SqlCredits(database),
    ledger: new SqlLedger(database),
    requestLog: new SqlRequestLog(database),
    runningRequests: new SqlRunningRequests(database),
    logs: new SqlLogReads(reports),
    analytics: new SqlAnalytics(reports),
    usageGroups: new SqlUsageGroups(reports),
    statements: new SqlStatement(reports),
    statementMonths: new SqlStatementMonths(reports),
    keySpending: new SqlKeySpending(reports),
    tenantSums: new SqlTenantSums(reports),
    walletTotals: new SqlWalletTotals(reports),
    jobs: openJobStores(database),
    claims: new SqlIdempotencyClaims(database),
    configObjects: new SqlConfigObjects(database),
    auditLog: new SqlAuditLog(reports),
  };
}

/**
 * Opens a database for reading while other processes may be using it. Creates, migrates, and
 * changes nothing. Returns undefined if there is no file yet.
 */
export async function openReadOnly(url: string): Promise<ReadOnlyDatabase | undefined> {
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
  // Don't repeat the URL, because it may contain a password after a mistyped scheme.
  throw storeError('The database URL must start with sqlite: or postgres://.');
}

/**
 * Returns the path of a `sqlite:` URL. SQLite treats names like `:memory:` as databases in memory.
 */
function filePathOf(url: string): string {
  const name = url.slice('sqlite:'.length);
  if (name !== '' && !name.startsWith(':')) return resolve(name);
  throw storeError('The sqlite: URL must name a file.');
}

async function openFile(path: string, mustExist: boolean): Promise<Database> {
  if (mustExist && !isNonEmptyFile(path)) {
    throw storeError(
      `There is no database at ${path}. Set its folder with --data-dir, or start a gateway once.`,
    );
  }
  try {
    // The file holds all records, so its folder is closed to other users of the machine.
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

/** Returns false for an empty file, which SQLite treats as a new database. */
function isNonEmptyFile(path: string): boolean {
  try {
    const file = statSync(path, { throwIfNoEntry: false });
    return file !== undefined && file.size > 0;
  } catch (error) {
    throw fileFailure(path, error);
  }
}

async function openServer(url: string): Promise<Database> {
  // Imported lazily: most gateways run on SQLite and don't need the driver in memory.
  const { openPostgres, withMigrationConnection } = await import('./postgres/postgres.ts');
  const { parseAddress, postgresError } = await import('./postgres/connection.ts');
  const { partitionEmptyLog } = await import('./postgres/partition-log.ts');
  // One after the other, because a role may be limited to a single connection.
  await withMigrationConnection(url, async (db) => {
    await migrate(db, 'postgres');
    await partitionEmptyLog(db, Date.now());
  });
  const database = await openPostgres(url);
  try {
    await requireTables(database);
    return database;
  } catch (error) {
    await database.close();
    if (error instanceof GatewayError) throw error;
    // Report this like any lost connection, which startup retries.
    throw postgresError(parseAddress(url).target, 'cannot be reached', error);
  }
}

/**
 * Rejects a migrated database that lacks a table, for example after a partial restore, or whose
 * user has no access to one. With such a database, a gateway would serve requests that it can't
 * bill.
 */
export async function requireTables(database: ReadOnlyDatabase): Promise<void> {
  const found =
    database.engine === 'sqlite' ? await tablesInFile(database) : await tablesOnServer(database);
  const missing = allTables.find((name) => !found.has(name));
  if (missing !== undefined) {
    throw storeError(`The database has no table ${missing}. Restore a backup that has all tables.`);
  }
  const forbidden = allTables.find((name) => found.get(name) === false);
  if (forbidden === undefined) return;
  throw storeError(
    `The database user can't read and change the table ${forbidden}. Grant it SELECT, INSERT, ` +
      'UPDATE, and DELETE on all tables.',
  );
}

/** Existing tables, and whether this user has access to them. */
type Tables = ReadonlyMap<string, boolean>;

async function tablesInFile({ read }: ReadOnlyDatabase): Promise<Tables> {
  const query = sql<{ name: string }>`select name from sqlite_master where type = 'table'`;
  const { rows } = await query.execute(read);
  return new Map(rows.map(({ name }) => [name, true]));
}

/** Only a role that migrates needs to write the table of migrations. */
const rightsOn = (table: Table): string =>
  table === 'migrations' ? 'select' : 'select,insert,update,delete';

async function tablesOnServer({ read }: ReadOnlyDatabase): Promise<Tables> {
  const required = sql.join(allTables.map((name) => sql`(${name}::text, ${rightsOn(name)}::text)`));
  // Check one privilege at a time. For a list, Postgres returns true if the user has any of them.
  const { rows } = await sql<{ name: string; is_open: boolean }>`
    select required.name, bool_and(has_table_privilege(pg_class.oid, one)) as is_open
    from (values ${required}) as required (name, rights)
    join pg_class on pg_class.relname = required.name and pg_class.relkind in ('r', 'p')
    join pg_namespace on pg_namespace.oid = pg_class.relnamespace
    cross join lateral unnest(string_to_array(required.rights, ',')) as one
    where pg_namespace.nspname = current_schema()
    group by required.name
  `.execute(read);
  return new Map(rows.map(({ name, is_open }) => [name, is_open]));
}

/** Pause between two attempts. Short, so that a server is found soon after it comes up. */
const retryMs = 500;
/** Service managers consider a process dead if it writes nothing for a few times this long. */
const reportEveryMs = 5_000;
/**
 * A file that stays locked is being migrated by another process, which may take this long per step.
 */
const lockedWaitMs = 600_000;
const migratingMessage = 'Its tables are being migrated.';

interface WaitOptions {
  /**
   * After this time, the URL is probably wrong. Before that, the server may just be slow to start.
   */
  readonly waitBudgetMs: number;
  /** Called with a sentence after every failed attempt, and repeatedly during a long one. */
  onUnreachable(reason: string): void;
  /** Ends the wait. */
  readonly stopped: Promise<void>;
}

/**
 * Opens the store as soon as its server responds or its file is unlocked. Returns undefined if
 * stopped. Rejects when the wait budget is used up, or at once if the store is there but unusable.
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
      // Only the wait for the server can be stopped. Migrations always run to completion.
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
 * Opens the store and reports progress, because a new index over a large log takes minutes, in this
 * process or in the one that holds the lock. Rejects as soon as `report` throws because the port is
 * taken.
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
 * Returns a function that awaits a step and resolves to true if the wait was stopped first.
 * Promise.race would add a handler to `stopped` for every step, and a server may be down for days.
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

/**
 * Returns true if waiting may help: the server doesn't respond yet, or reports that it is starting.
 */
function mayBecomeReachable(error: unknown): error is GatewayError {
  if (!(error instanceof GatewayError) || isLoginRejected(error.cause)) return false;
  const isSocketMissing = failureCode(error.cause) === 'ENOENT';
  return isSocketMissing || toOutageError(error.cause) !== undefined;
}

/**
 * Returns true if a write or a repair after a crash locks the file for longer than SQLite waits.
 */
function isLocked(error: unknown): error is GatewayError {
  const code = error instanceof GatewayError ? failureCode(error.cause) : undefined;
  return code?.startsWith('SQLITE_BUSY') ?? false;
}

/** The repositories of jobs. */
export interface JobStores {
  readonly store: JobStore;
  readonly queue: JobQueue;
  readonly objects: JobObjects;
  readonly webhooks: WebhookQueue;
  readonly webhookRotations: WebhookRotations;
}

function openJobStores(database: Database): JobStores {
  return {
    store: new SqlJobs(database),
    queue: new SqlJobQueue(database),
    objects: new SqlJobObjects(database),
    webhooks: new SqlWebhooks(database),
    webhookRotations: new SqlWebhookRotations(database),
  };
}

/** How often the log repeats why the process is waiting. */
const repeatMs = 30_000;

/**
 * Opens the store as soon as it is reachable. Returns undefined if the process was stopped first.
 * Until then, the startup server answers clients if one is passed.
 */
export async function waitForStore(
  config: Config,
  log: Log,
  stopped: Promise<void>,
  startupServer: { wait(reason: string): number } | undefined,
): Promise<Store | undefined> {
  const startedAt = performance.now();
  let loggedAt: number | undefined;
  const store = await openWhenReachable(config.database.reveal(), {
    waitBudgetMs: config.server.databaseWaitSeconds * 1000,
    stopped,
    onUnreachable(reason) {
      const port = startupServer?.wait(reason);
      const now = performance.now();
      if (loggedAt !== undefined && now - loggedAt < repeatMs) return;
      loggedAt = now;
      log.error('database_unreachable', { reason: reason, port });
    },
  });
  if (store && loggedAt !== undefined) {
    const seconds = Math.round((performance.now() - startedAt) / 1000);
    log.info('database_connected', { after_seconds: seconds });
  }
  return store;
}
