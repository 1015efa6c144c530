import { changeWithRecall } from '../auth/management/credits.ts';
import { SecretRotation } from '../auth/secret-rotation.ts';
import { Vault, wrongKey } from '../auth/vault.ts';
import { listedModels } from '../config/config.ts';
import { environment } from '../config/environment.ts';
import { loadConfig } from '../config/load.ts';
import { version } from '../config/version.ts';
import { demoModels } from '../demo/models.ts';
import { walletName } from '../money/ledger.ts';
import { StoreClock } from '../store/clock.ts';
import { openStore } from '../store/open.ts';
import { knownSecretKeys, secretKeysOf } from '../store/secret-key.ts';
import { verifyLedger } from '../store/verify/verify.ts';
import { builtInSkills } from '../tools/skills/built-in.ts';
import { SkillService } from '../tools/skills/skill-service.ts';
import { policyWith } from '../upstream/guard/address-policy.ts';
import { refusalBy } from '../upstream/guard/pinned-call.ts';
import { readInput } from './input.ts';
import type { CommandEnvironment } from './run.ts';

// Each write reports its own failure; an unhandled 'error' event would end a gateway whose output
// was closed.
process.stdout.on('error', () => undefined);
// The same for the log: a failure to write it would be told in the log, and so on for ever.
process.stderr.on('error', () => undefined);
let printed: Promise<unknown> = Promise.resolve();

function print(text: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  process.stdout.write(text, (failure) => (failure ? reject(failure) : resolve()));
  printed = Promise.all([printed, promise]);
  // flush() passes a failure on; until then it must not count as unhandled.
  printed.catch(() => undefined);
  return promise;
}

/** The process around the commands: its streams, its clock, its configuration, its store. */
export const commandEnvironment: CommandEnvironment = {
  version,
  out: (text) => void print(`${text}\n`).catch(() => undefined),
  write: print,
  flush: async () => void (await printed),
  err: (text) => void process.stderr.write(`${text}\n`),
  input: readInput,
  now: Date.now,
  async loadModels(flags) {
    const config = loadConfig(flags, environment);
    const demo = config.demo ? demoModels : [];
    return [...listedModels(config), ...demo.map((model) => ({ ...model, isLive: true }))];
  },
  async openStore(flags, mustExist) {
    const config = loadConfig(flags, environment, ['data_dir', 'database']);
    const store = await openStore(config.database.reveal(), mustExist);
    const { database, directory, credentials, creditBook, keySpending, statements } = store;
    const { now } = await StoreClock.open(database);
    return {
      now,
      directory,
      credentials,
      providers: config.providers,
      vault: async () => {
        // A key made beside one in use might be refused, and would stay behind as a file.
        const isInUse = await credentials.hasKey();
        const secrets = isInUse ? knownSecretKeys(config) : secretKeysOf(config);
        if (!secrets) throw wrongKey();
        return Vault.open({ store: credentials, secrets, isStart: false });
      },
      rotation: () => new SecretRotation(credentials, secretKeysOf(config)),
      refusalOf: refusalBy(policyWith(config.privateAddresses, () => config.server.port)),
      changed: () => undefined,
      skills: new SkillService({
        store: store.skills,
        builtIn: builtInSkills,
        now,
        onChanged: () => undefined,
      }),
      credits: {
        change: (order) =>
          changeWithRecall(creditBook, order, (id) => store.ledger.recall(walletName(id), '')),
        balance: (id) => creditBook.balance(id),
        entries: (id, page) => creditBook.entries(id, page),
      },
      spending: keySpending,
      statements,
      requests: store.requestLog,
      verify: (...callbacks) => verifyLedger(database, ...callbacks),
      close: () => database.close(),
    };
  },
};
