import { randomText } from '../core/ids.ts';
import type { Database } from './database.ts';

const setting = 'deployment';

/** A name of its own for all that share this store, made once: others may use the same Redis. */
export async function deploymentOf({ write }: Database): Promise<string> {
  await write
    .insertInto('settings')
    .values({ name: setting, value: randomText(8) })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .execute();
  const row = await write
    .selectFrom('settings')
    .select('value')
    .where('name', '=', setting)
    .executeTakeFirstOrThrow();
  return row.value;
}
