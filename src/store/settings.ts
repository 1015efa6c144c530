import { randomText } from '../core/ids.ts';
import {
  type Database,
  inTransaction,
  type ReadOnlyDatabase,
  type StoreTransaction,
} from './database.ts';

/**
 * Returns the value of a setting, after storing `defaultValue` if it had none. The row stays
 * locked, so that only this transaction can replace it.
 */
export async function getOrCreateSetting(
  trx: StoreTransaction,
  name: string,
  defaultValue: string,
): Promise<string> {
  await trx
    .insertInto('settings')
    .values({ name, value: defaultValue })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .execute();
  const { value } = await trx
    .selectFrom('settings')
    .select('value')
    .where('name', '=', name)
    .forUpdate()
    .executeTakeFirstOrThrow();
  return value;
}

export async function replaceSetting(
  trx: StoreTransaction,
  name: string,
  value: string,
): Promise<void> {
  await trx
    .insertInto('settings')
    .values({ name, value })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
    .execute();
}

/** Returns undefined if the setting was never stored. */
export async function readSetting(
  { read }: ReadOnlyDatabase,
  name: string,
): Promise<string | undefined> {
  const row = await read
    .selectFrom('settings')
    .select('value')
    .where('name', '=', name)
    .executeTakeFirst();
  return row?.value;
}

export const deploymentSetting = 'deployment';

/**
 * Returns the deployment ID, which all processes on this store share, creating it on first use. It
 * separates deployments that share a Redis, and keeps a journal from being replayed into another
 * store.
 */
export function ensureDeploymentId(database: Database): Promise<string> {
  return inTransaction(database, (trx) =>
    getOrCreateSetting(trx, deploymentSetting, randomText(8)),
  );
}

/** Returns undefined until the first startup has created the deployment ID. */
export function readDeploymentId(database: ReadOnlyDatabase): Promise<string | undefined> {
  return readSetting(database, deploymentSetting);
}

const creditRateSetting = 'credits_per_usd';

/**
 * Returns the credits per dollar of this store. The configured rate applies until the ledger has
 * its first entry; after that the rate is fixed, because every balance is an amount of these
 * credits.
 */
export function pinCreditRate(database: Database, requested: number): Promise<number> {
  return inTransaction(database, async (trx) => {
    const stored = Number(await getOrCreateSetting(trx, creditRateSetting, String(requested)));
    if (stored === requested) return requested;
    const entry = await trx.selectFrom('ledger_entries').select('id').executeTakeFirst();
    if (entry) return stored;
    await replaceSetting(trx, creditRateSetting, String(requested));
    return requested;
  });
}

/** Returns the fixed credits per dollar, or undefined while they can still change. */
export async function pinnedCreditRate(database: ReadOnlyDatabase): Promise<number | undefined> {
  const entry = await database.read.selectFrom('ledger_entries').select('id').executeTakeFirst();
  const stored = await readSetting(database, creditRateSetting);
  return entry === undefined || stored === undefined ? undefined : Number(stored);
}
