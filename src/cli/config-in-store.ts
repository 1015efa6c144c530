import { type Config, type ListedModel, listedModels } from '../config/config.ts';
import { configAtStart } from '../control/live-config.ts';
import { Secret } from '../core/secret.ts';
import { demoModels } from '../demo/models.ts';
import { readConfigObjects } from '../store/config-objects.ts';
import type { ReadOnlyDatabase } from '../store/database.ts';
import { knownSecretKeys } from '../store/secret-key.ts';
import { StoreProbe } from './doctor/store.ts';

/** Decrypts nothing. */
const noSecretKey = new Secret('');

/** The configuration of the file and of the store, as a gateway that starts now would use it. */
export async function readConfigInStore(file: Config, { read }: Pick<ReadOnlyDatabase, 'read'>) {
  const objects = await readConfigObjects(read);
  const secrets = knownSecretKeys(file) ?? ([noSecretKey] as const);
  return { ...configAtStart(file, objects, secrets), objects: objects.length };
}

/** Returns all models. Without a store that can be read, those of the file. */
export async function readModels(file: Config): Promise<readonly ListedModel[]> {
  const probe = new StoreProbe(file);
  try {
    const database = await probe.ready();
    const config = database ? (await readConfigInStore(file, database)).config : file;
    const demo = config.demo ? demoModels : [];
    return [...listedModels(config), ...demo.map((model) => ({ ...model, isConfigured: true }))];
  } finally {
    await probe.close();
  }
}
