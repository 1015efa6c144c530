import { randomText } from '../core/ids.ts';
import { type Database, inTransaction, type StoreTransaction } from './database.ts';

/**
 * The value of a setting; `wanted` becomes it where there was none. The row stays locked, so that
 * only this transaction can replace it.
 */
export async function claimSetting(
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

/** Undefined where nobody has claimed it yet. */
export async function readSetting({ read }: Database, name: string): Promise<string | undefined> {
  const row = await read
    .selectFrom('settings')
    .select('value')
    .where('name', '=', name)
    .executeTakeFirst();
  return row?.value;
}

export const deploymentSetting = 'deployment';

/**
 * One name for all processes on this store, made once: other deployments may share the Redis, and
 * a journal must not be booked in a store that is not its own.
 */
export function ensureDeploymentName(database: Database): Promise<string> {
  return inTransaction(database, (trx) => claimSetting(trx, deploymentSetting, randomText(8)));
}

/** Undefined until the first start has made it. */
export function readDeploymentName(database: Database): Promise<string | undefined> {
  return readSetting(database, deploymentSetting);
}

const creditRateSetting = 'credits_per_usd';

/**
 * The credits per dollar that hold in this store: those wanted, until the ledger has its first
 * entry. From then on every balance is an amount of these credits, and of no others.
 */
export function fixCreditRate(database: Database, requested: number): Promise<number> {
  return inTransaction(database, async (trx) => {
    const stored = Number(await claimSetting(trx, creditRateSetting, String(requested)));
    if (stored === requested) return requested;
    const entry = await trx.selectFrom('ledger_entries').select('id').executeTakeFirst();
    if (entry) return stored;
    await replaceSetting(trx, creditRateSetting, String(requested));
    return requested;
  });
}

/** The credits per dollar that cannot be changed any more; undefined while they can. */
export async function fixedCreditRate(database: Database): Promise<number | undefined> {
  const entry = await database.read.selectFrom('ledger_entries').select('id').executeTakeFirst();
  const stored = await readSetting(database, creditRateSetting);
  return entry === undefined || stored === undefined ? undefined : Number(stored);
}
