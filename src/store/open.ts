import { mkdirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Directory } from '../auth/directory.ts';
import type { CreditBook } from '../auth/manage/credit-book.ts';
import type { KeySpending } from '../auth/manage/key-spending.ts';
import type { RotationStore } from '../auth/secret-rotation.ts';
import type { VaultStore } from '../auth/vault.ts';
import type { ClaimStore } from '../cache/claim.ts';
import { GatewayError } from '../core/errors.ts';
import { failureCode } from '../core/failure-code.ts';
import type { LedgerStore } from '../ledger/ledger-store.ts';
import type { AnalyticsReads } from '../record/analytics.ts';
import type { SplitReads } from '../record/analytics-split.ts';
import type { LogReads } from '../record/log-reads.ts';
import type { EverybodysLog, RequestLog } from '../record/request-log.ts';
import type { StatementReads } from '../record/statement.ts';
import type { MonthReads } from '../record/statement-months.ts';
import type { TenantSumReads } from '../record/tenant-sums.ts';
import type { WalletReads } from '../record/wallet-totals.ts';
import type { SkillBook } from '../tools/skills/skill.ts';
import { SqlCreditBook } from './books/credit-book.ts';
import { SqlLedger } from './books/ledger.ts';
import { SqlRequestLog } from './books/request-log.ts';
import { SqlClaims } from './claims.ts';
import { SqlCredentials } from './credentials.ts';
import type { Database } from './database.ts';
import { SqlDirectory } from './directory/directory.ts';
import { type JobStore, openJobs } from './jobs/open.ts';
import { migrate } from './migrate.ts';
import { SqlAnalytics } from './reads/analytics.ts';
import { SqlAnalyticsSplit } from './reads/analytics-split.ts';
import { SqlKeySpending } from './reads/key-spending.ts';
import { SqlLogReads } from './reads/logs.ts';
import { SqlStatement } from './reads/statement.ts';
import { SqlStatementMonths } from './reads/statement-months.ts';
import { SqlTenantSums } from './reads/tenant-sums.ts';
import { SqlWalletTotals } from './reads/wallet-totals.ts';
import { SqlSkills } from './skills.ts';
import { fileFailure } from './sqlite/file-failure.ts';
import { openSqlite, openSqliteToLook } from './sqlite/sqlite.ts';
import { unusable } from './unusable.ts';
import { requireTables } from './whole.ts';

/** An open, up-to-date database and everything that is kept in it. */
export interface Store {
  readonly database: Database;
  readonly directory: Directory;
  readonly credentials: VaultStore & RotationStore;
  readonly skills: SkillBook;
  readonly creditBook: CreditBook;
  readonly ledger: LedgerStore;
  readonly requestLog: RequestLog & EverybodysLog;
  readonly logs: LogReads;
  readonly analytics: AnalyticsReads;
  readonly splits: SplitReads;
  readonly statements: StatementReads;
  readonly statementMonths: MonthReads;
  readonly keySpending: KeySpending;
  readonly tenantSums: TenantSumReads;
  readonly walletTotals: WalletReads;
  readonly jobs: JobStore;
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
    jobs: openJobs(database),
    claims: new SqlClaims(database),
  };
}

/**
 * The database as it stands, beside whoever uses it: nothing is made, migrated or changed.
 * Undefined where there is no file yet.
 */
export async function openToLook(url: string): Promise<Database | undefined> {
  if (!url.startsWith('sqlite:')) {
    const { openPostgres } = await import('./postgres/postgres.ts');
    return openPostgres(url);
  }
  const path = fileIn(url);
  return holdsSomething(path) ? openSqliteToLook(path) : undefined;
}

async function openDatabase(url: string, mustExist: boolean): Promise<Database> {
  if (url.startsWith('sqlite:')) return openFile(fileIn(url), mustExist);
  if (/^postgres(ql)?:\/\//.test(url)) return openServer(url);
  // The address may hold a password under a mistyped scheme, so it is not repeated.
  throw unusable('The database address must start with sqlite: or postgres://.');
}

/** The path of a `sqlite:` address. A name that begins with a colon would mean the memory. */
function fileIn(url: string): string {
  const name = url.slice('sqlite:'.length);
  if (name !== '' && !name.startsWith(':')) return resolve(name);
  throw unusable('The sqlite: address must name a file.');
}

async function openFile(path: string, mustExist: boolean): Promise<Database> {
  if (mustExist && !holdsSomething(path)) {
    throw unusable(
      `There is no database at ${path}: name its folder with --data-dir, or start a gateway once.`,
    );
  }
  try {
    // The file holds everybody's records: its folder is closed to other users of the machine.
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  } catch (thrown) {
    throw fileFailure(path, thrown);
  }
  const database = await openSqlite(path);
  try {
    await migrate(database.write, 'sqlite');
    await requireTables(database);
    return database;
  } catch (thrown) {
    await database.close();
    throw failureCode(thrown)?.startsWith('SQLITE_') ? fileFailure(path, thrown) : thrown;
  }
}

/** SQLite takes an empty file for a new database. */
function holdsSomething(path: string): boolean {
  try {
    const file = statSync(path, { throwIfNoEntry: false });
    return file !== undefined && file.size > 0;
  } catch (thrown) {
    throw fileFailure(path, thrown);
  }
}

async function openServer(url: string): Promise<Database> {
  // Imported only here: most gateways run on a file and need no Postgres driver in memory.
  const { openPostgres, withMigrationConnection } = await import('./postgres/postgres.ts');
  const { readAddress, refusal } = await import('./postgres/address.ts');
  // One after the other: a role may be allowed a single connection.
  await withMigrationConnection(url, (db) => migrate(db, 'postgres'));
  const database = await openPostgres(url);
  try {
    await requireTables(database);
    return database;
  } catch (thrown) {
    await database.close();
    if (thrown instanceof GatewayError) throw thrown;
    // Told like any other loss of the server, which a start waits out.
    throw refusal(readAddress(url).target, 'cannot be reached', thrown);
  }
}
