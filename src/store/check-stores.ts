import type { Config } from '../config/config.ts';
import { shareObjectsHint } from '../core/stored-object.ts';
import type { Log } from '../telemetry/log.ts';
import type { Database } from './database.ts';
import { claimObjectsLocation } from './objects/open.ts';
import { unencryptedHost } from './postgres/connection.ts';

/**
 * Warns if data for Postgres crosses a network unencrypted, and if the object store has changed,
 * because jobs whose files are in another store fail.
 */
export async function checkStores(
  { database: url, objects }: Pick<Config, 'database' | 'objects'>,
  database: Database,
  log: Log,
): Promise<void> {
  const host = unencryptedHost(url.reveal());
  if (host !== undefined) log.warn('database_unencrypted', { host });
  if (await claimObjectsLocation(database, objects.reveal())) return;
  log.warn('object_store_changed', {
    reason: `The last process on this database used a different object store. ${shareObjectsHint}`,
  });
}
