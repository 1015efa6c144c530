import { basename, dirname, resolve } from 'node:path';
import { countByKey } from '../../auth/secret-rotation.ts';
import { wrongKey } from '../../auth/vault.ts';
import type { Config } from '../../config/config.ts';
import { journalFailure, journalRoot, journalsBelongTo } from '../../money/settle/journal-files.ts';
import { deadJournals } from '../../money/settle/replay.ts';
import { StoreClock } from '../../store/clock.ts';
import type { ReadOnlyDatabase } from '../../store/database.ts';
import { migrationStatus } from '../../store/migrations/migrate.ts';
import { openReadOnly, requireTables } from '../../store/open.ts';
import { overdueLeases } from '../../store/reports/totals.ts';
import { knownSecretKeys } from '../../store/secret-key.ts';
import { pinnedCreditRate, readDeploymentId } from '../../store/settings.ts';
import { SqlCredentialPages } from '../../store/tenants/credentials.ts';
import { formatCount } from '../output.ts';
import { type Check, type Finding, folderFinding, healthy, unhealthy } from './check.ts';

/**
 * The doctor reports a larger difference. AWS and S3 signatures would be rejected, and certificates
 * could seem invalid.
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

  /** The store's name in findings. Not a server's URL, because that may contain a password. */
  get label(): string {
    return this.isServer ? 'Postgres' : resolve(this.#url.slice('sqlite:'.length));
  }

  /** Opens the database. Resolves to undefined if its file doesn't exist yet. */
  open(): Promise<ReadOnlyDatabase | undefined> {
    this.#opened ??= openReadOnly(this.#url);
    return this.#opened;
  }

  /** Resolves to undefined if the store can't be opened or lacks tables of this version. */
  async ready(): Promise<ReadOnlyDatabase | undefined> {
    try {
      const database = await this.open();
      if (!database) return undefined;
      const { applied, known } = await migrationStatus(database.read, database.engine);
      if (applied !== known) return undefined;
      await requireTables(database);
      return database;
    } catch {
      // The store check reports the failure.
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
    const reach =
      'Check the database option (DATABASE_URL), and make sure that this machine can reach the ' +
      'server.';
    return unhealthy(database.message, store.isServer ? reach : null);
  }
  const folderProblem = store.isServer ? undefined : unwritableFolder(config, store.label);
  if (folderProblem) return folderProblem;
  if (!database) return healthy(`${store.label} doesn't exist yet; the first start creates it.`);
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
  return healthy(`${answers}; ${applied} of ${known} migrations are applied, and ${left}.`);
}

/**
 * If the database file can't be written to, returns the reason. Skips the data directory, which has
 * its own check.
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
  // If the store can't be opened, the store check reports why.
  const database = await store.open().catch(() => undefined);
  if (!database) return undefined;
  const { aheadMs } = await StoreClock.open(database);
  if (aheadMs === undefined) {
    return unhealthy('The database took too long to return its time.', 'Check its load.');
  }
  const skew = `${(Math.abs(aheadMs) / 1000).toFixed(1)} s`;
  const direction = aheadMs > 0 ? 'behind' : 'ahead of';
  if (Math.abs(aheadMs) <= clockSkewMsMax) {
    return healthy(`This machine's clock differs from the database's by ${skew}.`);
  }
  return unhealthy(
    `This machine's clock is ${skew} ${direction} the database's.`,
    'Synchronize both clocks: timedatectl set-ntp true',
  );
}

/** Shows the time so that the user can check it. There is no other clock to compare it with. */
function localClock(): Finding {
  const now = new Date().toISOString().slice(0, 19).replace('T', ' ');
  return healthy(`This machine's clock says ${now} UTC.`);
}

async function checkSecretKey(config: Config, store: StoreProbe): Promise<Finding | undefined> {
  const keys = knownSecretKeys(config);
  const database = await store.ready();
  if (!database) return undefined;
  const credentials = new SqlCredentialPages(database);
  if (!keys) {
    const [storedKey] = await credentials.page(undefined, 1);
    if (storedKey) return unhealthy('There is no secret key.', wrongKey().message);
    return healthy('There is no secret key yet; the first start creates it.');
  }
  const { current, previous, undecryptable } = await countByKey(credentials, keys);
  const decryptable = current + previous;
  if (undecryptable > 0) {
    const all = formatCount(decryptable + undecryptable, 'provider key');
    const found = `The secret key can decrypt only ${decryptable} of ${all}.`;
    return unhealthy(found, wrongKey().message);
  }
  if (decryptable === 0) return healthy('There are no provider keys to decrypt.');
  const old = formatCount(previous, 'key is', 'keys are');
  const note = previous > 0 ? ` ${old} still encrypted with the previous secret key.` : '';
  return healthy(`The secret key can decrypt all provider keys (${decryptable}).${note}`);
}

/** Leases last for minutes. If a lease is overdue by this much, its process is dead. */
const overdueMs = 24 * 3_600_000;

export function ledgerChecks(config: Config, store: StoreProbe): readonly Check[] {
  return [
    { name: 'journal', run: () => checkJournal(config, store) },
    { name: 'ledger', run: () => checkLedger(config, store) },
  ];
}

async function checkJournal({ dataDir }: Config, store: StoreProbe): Promise<Finding> {
  try {
    const database = await store.ready();
    const deploymentId = database && (await readDeploymentId(database));
    if (deploymentId !== undefined) journalsBelongTo(dataDir, deploymentId);
    const dead = deadJournals(journalRoot(dataDir), Date.now()).length;
    if (dead === 0) return healthy('No journals were left behind by processes that have exited.');
    const left = `Processes that have exited left ${formatCount(dead, 'journal')}`;
    return unhealthy(
      `${left}, which may contain charges that aren't in the ledger yet.`,
      'To record these charges, start a gateway with this data directory: "tollgate serve".',
    );
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
  const rate = await pinnedCreditRate(database);
  if (rate !== undefined && rate !== creditsPerUsd) {
    const found =
      `The ledger has ${rate} credits per dollar, but the configuration has ` + `${creditsPerUsd}.`;
    return unhealthy(found, `Set credits_per_usd to ${rate}.`);
  }
  const { leases, credits } = await overdueLeases(database, Date.now() - overdueMs);
  if (leases > 0) {
    const held = formatCount(credits, 'credit');
    const found = `${formatCount(leases, 'lease')} with ${held} expired more than a day ago.`;
    return unhealthy(found, 'To return the credits, start a gateway: "tollgate serve".');
  }
  const more = 'To check every balance, run "tollgate ledger verify".';
  return healthy(`No lease expired more than a day ago. ${more}`);
}
