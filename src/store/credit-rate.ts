import { type Database, inTransaction } from './database.ts';
import { claimSetting, readSetting, replaceSetting } from './settings.ts';

const setting = 'credits_per_usd';

/**
 * The credits per dollar that hold in this store: those wanted, until the ledger has its first
 * entry. From then on every balance is an amount of these credits, and of no others.
 */
export function fixCreditRate(database: Database, wanted: number): Promise<number> {
  return inTransaction(database, async (change) => {
    const kept = Number(await claimSetting(change, setting, String(wanted)));
    if (kept === wanted) return wanted;
    const entry = await change.selectFrom('ledger_entries').select('id').executeTakeFirst();
    if (entry) return kept;
    await replaceSetting(change, setting, String(wanted));
    return wanted;
  });
}

/** The credits per dollar that cannot be changed any more; undefined while they can. */
export async function fixedCreditRate(database: Database): Promise<number | undefined> {
  const entry = await database.read.selectFrom('ledger_entries').select('id').executeTakeFirst();
  const kept = await readSetting(database, setting);
  return entry === undefined || kept === undefined ? undefined : Number(kept);
}
