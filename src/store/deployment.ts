import { randomText } from '../core/ids.ts';
import { type Database, inTransaction } from './database.ts';
import { claimSetting } from './settings.ts';

/**
 * One name for all processes on this store, made once: other deployments may share the Redis, and
 * a journal must not be booked in a store that is not its own.
 */
export function deploymentOf(database: Database): Promise<string> {
  return inTransaction(database, (change) => claimSetting(change, 'deployment', randomText(8)));
}
