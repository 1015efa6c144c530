import { basename, dirname, resolve } from 'node:path';
import { countByKey } from '../../auth/secret-rotation.ts';
import { wrongKey } from '../../auth/vault.ts';
import type { Config } from '../../config/config.ts';
import { journalFailure, journalRoot, journalsBelongTo } from '../../money/settle/journal-files.ts';
import { deadJournals } from '../../money/settle/replay.ts';
import { StoreClock } from '../../store/clock.ts';
import type { ReadOnlyDatabase } from '../../store/database.ts';
import { SqlCredentialPages } from '../../store/directory/credentials.ts';
import { migrationStatus } from '../../store/migrations/migrate.ts';
import { openReadOnly, requireTables } from '../../store/open.ts';
import { overdueLeases } from '../../store/reports/totals.ts';
import { knownSecretKeys } from '../../store/secret-key.ts';
import { fixedCreditRate, readDeploymentName } from '../../store/settings.ts';
import { counted } from '../output.ts';
import { type Check, type Finding, folderFinding, healthy, unhealthy } from './check.ts';

/**
 * A clock further off than this is reported: requests to AWS and S3 are signed with the time, and
 * the validity of certificates depends on it.
 */
const clockSkewMsMax = 30_000;

/** The store, opened once for all checks that need it. */
export class StoreProbe {
  readonly #url: string;
  #opened: Promise<ReadOnlyDatabase | undefined> | undefined;

  constructor({ database }: Config) {
    this.#url = database.reveal();
  }

  get isServer(): boolean {
    return !this.#url.startsWith('sqlite:');
  }

  /** What reports call the store: not the address of a server, which may hold a password. */
  get label(): string {
    return this.isServer ? 'Postgres' : resolve(this.#url.slice('sqlite:'.length));
  }

  /** Undefined if the database file does not exist yet. */
  open(): Promise<ReadOnlyDatabase | undefined> {
    this.#opened ??= openReadOnly(this.#url);
    return this.#opened;
  }

  /** Undefined unless the store can be opened and has all the tables that this program knows. */
  async ready(): Promise<ReadOnlyDatabase | undefined> {
    try {
      const database = await this.open();
      if (!database) return undefined;
      const { applied, known } = await migrationStatus(database.read, database.engine);
      if (applied !== known) return undefined;
      await requireTables(database);
      return database;
    } catch {
      // The check of the store itself reports the failure.
      return undefined;
    }
  }

  async close(): Promise<void> {
    const database = await this.#opened?.catch(() => undefined);
    await database?.close();
  }
}

export function storeChecks(config: Config, store: StoreProbe): readonly Check[] {
  return [
    { name: 'store', run: () => checkStore(config, store) },
    { name: 'clock', run: () => checkClock(store) },
    { name: 'secret key', run: () => checkSecretKey(config, store) },
  ];
}

async function checkStore(config: Config, store: StoreProbe): Promise<Finding> {
  const database = await store.open().catch((error: Error) => error);
  if (database instanceof Error) {
    const reach = 'Check database (DATABASE_URL), and that this machine may reach it.';
    return unhealthy(database.message, store.isServer ? reach : null);
  }
  const folderProblem = store.isServer ? undefined : unwritableFolder(config, store.label);
  if (folderProblem) return folderProblem;
  if (!database) return healthy(`${store.label} is not there yet; the first start makes it.`);
  const startedAt = performance.now();
  await database.ping();
  const ms = Math.round(performance.now() - startedAt);
  const { applied = 0, known } = await migrationStatus(database.read, database.engine);
  const answers = `${store.label} answers in ${ms} ms`;
  if (applied === known) {
    await requireTables(database);
    return healthy(`${answers}; all ${known} migrations are applied.`);
  }
  const left = `the next start applies the other ${known - applied}`;
  return healthy(`${answers}; ${applied} of ${known} migrations are applied, ${left}.`);
}

/**
 * Why a database file outside the data folder, which has its own check, cannot be written or made.
 */
function unwritableFolder({ dataDir }: Config, file: string): Finding | undefined {
  const folder = dirname(file);
  if (folder === resolve(dataDir)) return undefined;
  const name = basename(file);
  const found = folderFinding(folder, 'database', [name, `${name}-wal`, `${name}-shm`]);
  return found.isHealthy ? undefined : found;
}

async function checkClock(store: StoreProbe): Promise<Finding | undefined> {
  if (!store.isServer) return localClock();
  // If the store cannot be opened, its own check reports why.
  const database = await store.open().catch(() => undefined);
  if (!database) return undefined;
  const { aheadMs } = await StoreClock.open(database);
  if (aheadMs === undefined) {
    return unhealthy('The store took too long to say what time it is.', 'Look at its load.');
  }
  const apart = `${(Math.abs(aheadMs) / 1000).toFixed(1)} s`;
  if (Math.abs(aheadMs) <= clockSkewMsMax) return healthy(`It is ${apart} apart from the store's.`);
  const which = aheadMs > 0 ? 'behind' : 'ahead of';
  return unhealthy(
    `It is ${apart} ${which} the store's.`,
    'Set both by the network: timedatectl set-ntp true',
  );
}

/** There is nothing to compare the clock with, so the time is shown for the reader to check. */
function localClock(): Finding {
  const now = new Date().toISOString().slice(0, 19).replace('T', ' ');
  return healthy(`It is ${now} UTC by this machine, whose clock counts.`);
}

async function checkSecretKey(config: Config, store: StoreProbe): Promise<Finding | undefined> {
  const keys = knownSecretKeys(config);
  const database = await store.ready();
  if (!database) return undefined;
  const credentials = new SqlCredentialPages(database);
  if (!keys) {
    const [storedKey] = await credentials.page(undefined, 1);
    if (storedKey) return unhealthy('There is none.', wrongKey().message);
    return healthy('There is none yet; the first start makes it.');
  }
  const { current, previous, undecryptable } = await countByKey(credentials, keys);
  const readable = current + previous;
  if (undecryptable > 0) {
    const found = `It opens ${readable} of ${counted(readable + undecryptable, 'provider key')}.`;
    return unhealthy(found, wrongKey().message);
  }
  if (readable === 0) return healthy('Tenants have brought no provider keys that it has to open.');
  const old = previous > 0 ? `, ${previous} of them by the former one` : '';
  return healthy(`It opens ${counted(readable, 'provider key')} of tenants${old}.`);
}

/**
 * Leases last for minutes: one overdue by this much belongs to a dead process not started again.
 */
const overdueMs = 24 * 3_600_000;

export function ledgerChecks(config: Config, store: StoreProbe): readonly Check[] {
  return [
    { name: 'journal', run: () => checkJournal(config, store) },
    { name: 'books', run: () => checkLedger(config, store) },
  ];
}

async function checkJournal({ dataDir }: Config, store: StoreProbe): Promise<Finding> {
  try {
    const database = await store.ready();
    const deployment = database && (await readDeploymentName(database));
    if (deployment !== undefined) journalsBelongTo(dataDir, deployment);
    const dead = deadJournals(journalRoot(dataDir), Date.now()).length;
    if (dead === 0) return healthy('No process that has ended left requests behind.');
    const found = `${counted(dead, 'journal')} left by processes that do not run any more.`;
    return unhealthy(found, 'Start a gateway on this folder, which books them: "tollgate serve".');
  } catch (error) {
    throw journalFailure(error);
  }
}

async function checkLedger(
  { creditsPerUsd }: Config,
  store: StoreProbe,
): Promise<Finding | undefined> {
  const database = await store.ready();
  if (!database) return undefined;
  const rate = await fixedCreditRate(database);
  if (rate !== undefined && rate !== creditsPerUsd) {
    const found = `They are kept in ${rate} credits per dollar, not in ${creditsPerUsd}.`;
    return unhealthy(found, `Set credits_per_usd to ${rate}.`);
  }
  const { leases, credits } = await overdueLeases(database, Date.now() - overdueMs);
  if (leases > 0) {
    const held = counted(credits, 'credit');
    const found = `${held} are on hold for longer than a day, in ${counted(leases, 'lease')}.`;
    return unhealthy(found, 'Start a gateway, which gives them back: "tollgate serve".');
  }
  const more = '"tollgate ledger verify" follows every balance';
  return healthy(`Nothing is on hold for longer than a day; ${more}.`);
}
