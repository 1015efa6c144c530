import { nothingSpent } from './auth/key-spending.ts';
import { runCommand } from './cli/run.ts';
import { topics } from './cli/topics.ts';
import { environment } from './config/environment.ts';
import { loadConfig } from './config/load.ts';
import { raiseConnectionLimit } from './raise-connection-limit.ts';
import { openStore } from './store/open.ts';
import { version } from './version.ts';

/** The command line's door. */
const words = process.argv.slice(2);
raiseConnectionLimit(words, environment);

process.exitCode = await runCommand(words, topics, {
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
});
// Connections of clients that never hung up would keep the process alive.
process.exit();
