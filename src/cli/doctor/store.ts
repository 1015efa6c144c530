import { basename, dirname, resolve } from 'node:path';
import { SecretRotation } from '../../auth/secret-rotation.ts';
import { wrongKey } from '../../auth/vault.ts';
import type { Config } from '../../config/config.ts';
import { StoreClock } from '../../store/clock.ts';
import { SqlCredentials } from '../../store/credentials.ts';
import type { Database } from '../../store/database.ts';
import { standingOf } from '../../store/migrate.ts';
import { openToLook } from '../../store/open.ts';
import { knownSecretKeys } from '../../store/secret-key.ts';
import { requireTables } from '../../store/whole.ts';
import { counted } from '../table.ts';
import { type Check, type Finding, unwell, well } from './check.ts';
import { folderFinding } from './folders.ts';

/**
 * A clock further off than this is reported: requests to AWS and S3 are signed with the time, and
 * the validity of certificates depends on it.
 */
const aheadMsMax = 30_000;

/** The store, opened once for all checks that need it. */
export class StoreLook {
  readonly #url: string;
  #opened: Promise<Database | undefined> | undefined;

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
  open(): Promise<Database | undefined> {
    this.#opened ??= openToLook(this.#url);
    return this.#opened;
  }

  /** Undefined unless the store can be opened and has all the tables that this program knows. */
  async ready(): Promise<Database | undefined> {
    try {
      const database = await this.open();
      if (!database) return undefined;
      const { applied, known } = await standingOf(database.read, database.engine);
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

export function storeChecks(config: Config, store: StoreLook): readonly Check[] {
  return [
    { name: 'store', look: () => standing(config, store) },
    { name: 'clock', look: () => clock(store) },
    { name: 'secret key', look: () => secretKey(config, store) },
  ];
}

async function standing(config: Config, store: StoreLook): Promise<Finding> {
  const database = await store.open().catch((thrown: Error) => thrown);
  if (database instanceof Error) {
    const reach = 'Check database (DATABASE_URL), and that this machine may reach it.';
    return unwell(database.message, store.isServer ? reach : null);
  }
  const cross = store.isServer ? undefined : closed(config, store.label);
  if (cross) return cross;
  if (!database) return well(`${store.label} is not there yet; the first start makes it.`);
  const startedAt = performance.now();
  await database.ping();
  const ms = Math.round(performance.now() - startedAt);
  const { applied = 0, known } = await standingOf(database.read, database.engine);
  const answers = `${store.label} answers in ${ms} ms`;
  if (applied === known) {
    await requireTables(database);
    return well(`${answers}; all ${known} migrations are applied.`);
  }
  const left = `the next start applies the other ${known - applied}`;
  return well(`${answers}; ${applied} of ${known} migrations are applied, ${left}.`);
}

/**
 * Why a database file outside the data folder, which has its own check, cannot be written or made.
 */
function closed({ dataDir }: Config, file: string): Finding | undefined {
  const folder = dirname(file);
  if (folder === resolve(dataDir)) return undefined;
  const name = basename(file);
  const found = folderFinding(folder, 'database', [name, `${name}-wal`, `${name}-shm`]);
  return found.isWell ? undefined : found;
}

async function clock(store: StoreLook): Promise<Finding | undefined> {
  if (!store.isServer) return ownClock();
  // If the store cannot be opened, its own check reports why.
  const database = await store.open().catch(() => undefined);
  if (!database) return undefined;
  const { aheadMs } = await StoreClock.open(database);
  if (aheadMs === undefined) {
    return unwell('The store took too long to say what time it is.', 'Look at its load.');
  }
  const apart = `${(Math.abs(aheadMs) / 1000).toFixed(1)} s`;
  if (Math.abs(aheadMs) <= aheadMsMax) return well(`It is ${apart} apart from the store's.`);
  const which = aheadMs > 0 ? 'behind' : 'ahead of';
  return unwell(
    `It is ${apart} ${which} the store's.`,
    'Set both by the network: timedatectl set-ntp true',
  );
}

/** There is nothing to compare the clock with, so the time is shown for the reader to check. */
function ownClock(): Finding {
  const now = new Date().toISOString().slice(0, 19).replace('T', ' ');
  return well(`It is ${now} UTC by this machine, whose clock counts.`);
}

async function secretKey(config: Config, store: StoreLook): Promise<Finding | undefined> {
  const keys = knownSecretKeys(config);
  const database = await store.ready();
  if (!database) return undefined;
  const credentials = new SqlCredentials(database);
  if (!keys) {
    const [kept] = await credentials.page(undefined, 1);
    if (kept) return unwell('There is none.', wrongKey().message);
    return well('There is none yet; the first start makes it.');
  }
  const { current, former, unreadable } = await new SecretRotation(credentials, keys).count();
  const readable = current + former;
  if (unreadable > 0) {
    const found = `It opens ${readable} of ${counted(readable + unreadable, 'provider key')}.`;
    return unwell(found, wrongKey().message);
  }
  if (readable === 0) return well('Tenants have brought no provider keys that it has to open.');
  const old = former > 0 ? `, ${former} of them by the former one` : '';
  return well(`It opens ${counted(readable, 'provider key')} of tenants${old}.`);
}
