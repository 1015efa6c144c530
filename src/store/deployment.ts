import { randomText } from '../core/ids.ts';
import { type Database, inTransaction } from './database.ts';
import { claimSetting, readSetting } from './settings.ts';

export const deploymentSetting = 'deployment';

/**
 * One name for all processes on this store, made once: other deployments may share the Redis, and
 * a journal must not be booked in a store that is not its own.
 */
export function deploymentOf(database: Database): Promise<string> {
  return inTransaction(database, (change) =>
    claimSetting(change, deploymentSetting, randomText(8)),
  );
}

/** Undefined until the first start has made it. */
export function knownDeployment(database: Database): Promise<string | undefined> {
  return readSetting(database, deploymentSetting);
}
