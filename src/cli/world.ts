import { nothingSpent } from '../auth/key-spending.ts';
import { environment } from '../config/environment.ts';
import { loadConfig } from '../config/load.ts';
import { version } from '../config/version.ts';
import { openStore } from '../store/open.ts';
import type { World } from './run.ts';

/** The process around the commands: its streams, its clock, its configuration, its store. */
export const world: World = {
  version,
  out: (text) => void process.stdout.write(`${text}\n`),
  err: (text) => void process.stderr.write(`${text}\n`),
  now: Date.now,
  loadModels: async (flags) => loadConfig(flags, environment).models,
  async openStore(flags) {
    const config = loadConfig(flags, environment);
    const { database, directory, creditBook } = await openStore(config.database.reveal());
    return {
      directory,
      credits: creditBook,
      spending: { spent: async (_tenant, ids) => new Map(ids.map((id) => [id, nothingSpent])) },
      close: () => database.close(),
    };
  },
};
