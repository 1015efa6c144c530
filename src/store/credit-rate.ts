import type { Database } from './database.ts';

const setting = 'credits_per_usd';

/**
 * The credits per dollar that hold in this store: those wanted, until the ledger has its first
 * entry. From then on every balance is an amount of these credits, and of no others.
 */
export function fixCreditRate({ write, engine }: Database, wanted: number): Promise<number> {
  return write.transaction().execute(async (change) => {
    await change
      .insertInto('settings')
      .values({ name: setting, value: String(wanted) })
      .onConflict((conflict) => conflict.column('name').doNothing())
      .execute();
    const { value } = await change
      .selectFrom('settings')
      .select('value')
      .where('name', '=', setting)
      // Whoever holds the row decides alone; SQLite's write transactions are exclusive anyway.
      .$if(engine === 'postgres', (query) => query.forUpdate())
      .executeTakeFirstOrThrow();
    if (Number(value) === wanted) return wanted;
    const entry = await change.selectFrom('ledger_entries').select('id').executeTakeFirst();
    if (entry) return Number(value);
    await change
      .updateTable('settings')
      .set({ value: String(wanted) })
      .where('name', '=', setting)
      .execute();
    return wanted;
  });
}
