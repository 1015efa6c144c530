import type { Database, StoreTransaction } from './database.ts';

/**
 * The value of a setting; `wanted` becomes it where there was none. The row stays locked, so that
 * only this transaction can replace it.
 */
export async function claimSetting(
  change: StoreTransaction,
  name: string,
  wanted: string,
): Promise<string> {
  await change
    .insertInto('settings')
    .values({ name, value: wanted })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .execute();
  const { value } = await change
    .selectFrom('settings')
    .select('value')
    .where('name', '=', name)
    .forUpdate()
    .executeTakeFirstOrThrow();
  return value;
}

export async function replaceSetting(
  change: StoreTransaction,
  name: string,
  value: string,
): Promise<void> {
  await change
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
