import { changeWithRecall } from '../auth/management/credits.ts';
import { SecretRotation } from '../auth/secret-rotation.ts';
import { Vault, wrongKey } from '../auth/vault.ts';
import type { Config } from '../config/config.ts';
import { environment } from '../config/environment.ts';
import { type Flags, loadConfig } from '../config/load.ts';
import { version } from '../config/version.ts';
import { ConfigVault } from '../control/config-vault.ts';
import { walletName } from '../money/ledger.ts';
import { isChatModel } from '../route/capability.ts';
import { Catalog } from '../route/catalog.ts';
import { StoreClock } from '../store/clock.ts';
import { openStore, type Store } from '../store/open.ts';
import { knownSecretKeys, secretKeysOf } from '../store/secret-key.ts';
import { verifyLedger } from '../store/verify/verify.ts';
import { builtInSkills } from '../tools/skills/built-in.ts';
import { SkillService } from '../tools/skills/skill-service.ts';
import { policyWith } from '../upstream/guard/address-policy.ts';
import { createGuardedFetch } from '../upstream/guard/guarded-fetch.ts';
import { rejectionReasonBy } from '../upstream/guard/pinned-call.ts';
import { testProvider } from '../upstream/provider-test.ts';
import { readConfigInStore, readModels } from './config-in-store.ts';
import type { CommandEnvironment } from './dispatch.ts';
import { readInput } from './input.ts';

// Each write handles its own failure. Without this listener, a closed stdout would end the process.
process.stdout.on('error', () => undefined);
// Ignore failed writes to the log, because logging the failure would fail as well.
process.stderr.on('error', () => undefined);
let printed: Promise<unknown> = Promise.resolve();

function print(text: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  process.stdout.write(text, (failure) => (failure ? reject(failure) : resolve()));
  printed = Promise.all([printed, promise]);
  // flush() rejects with this error later. Until then, it must not count as unhandled.
  printed.catch(() => undefined);
  return promise;
}

/** Slow connections take half a minute for a public price list. */
const downloadMs = 60_000;

function addressChecks({ privateAddresses, server: { port, admin } }: Config) {
  const policy = policyWith(privateAddresses, () => [port, ...(admin ? [admin.port] : [])]);
  const fetchGuarded = createGuardedFetch(policy);
  return {
    rejectionReason: rejectionReasonBy(policy),
    download: (url: string, bodyBytesMax: number) =>
      fetchGuarded(url, { tenantId: '', bodyBytesMax, timeoutMs: downloadMs }),
  };
}

async function testStoredProvider(
  name: string,
  options: Parameters<typeof testProvider>[2],
  flags: Flags,
  { configObjects }: Store,
  vault: ConfigVault,
) {
  const { objects } = await configObjects.read();
  const opened = objects.map((object) => vault.open(object));
  // Loaded again, because only this command needs the variables of all providers.
  const { models, providers } = loadConfig(flags, environment).withStored(opened);
  const provider = providers.get(name);
  const offers = new Catalog(models, providers).offersAt(name);
  const chatOffers = offers.filter(({ model }) => isChatModel(model));
  return provider && testProvider(provider, chatOffers, options);
}

/** Connects commands to this process: its streams, clock, configuration, and store. */
export const commandEnvironment: CommandEnvironment = {
  version,
  out: (text) => void print(`${text}\n`).catch(() => undefined),
  write: print,
  flush: async () => void (await printed),
  err: (text) => void process.stderr.write(`${text}\n`),
  input: readInput,
  now: Date.now,
  loadModels: async (flags) => readModels(loadConfig(flags, environment)),
  async openStore(flags, mustExist) {
    const config = loadConfig(flags, environment, ['data_dir', 'database']);
    const store = await openStore(config.database.reveal(), mustExist);
    const { database, directory, credentials, creditStore, keySpending, statements } = store;
    const { now } = await StoreClock.open(database);
    const live = await readConfigInStore(config, database);
    const secretsInUse = async () => {
      // If secrets are stored, don't generate a secret key. It couldn't decrypt them.
      const isInUse = await credentials.hasKey();
      const secrets = isInUse ? knownSecretKeys(config) : secretKeysOf(config);
      if (!secrets) throw wrongKey();
      return secrets;
    };
    const openVault = async () =>
      Vault.open({ store: credentials, secrets: await secretsInUse(), isStart: false });
    const openConfigVault = async () => {
      await openVault();
      return new ConfigVault(await secretsInUse());
    };
    return {
      now,
      directory,
      credentials,
      control: {
        store: store.configObjects,
        vault: openConfigVault,
        base: () => config,
        now,
        changed: async () => undefined,
      },
      audit: store.auditLog,
      testProvider: async (name, options) =>
        testStoredProvider(name, options, flags, store, await openConfigVault()),
      providers: live.config.providers,
      plans: () => live.config.plans.keys(),
      vault: openVault,
      rotation: () => new SecretRotation(credentials, secretKeysOf(config)),
      currentConfig: async () => live.config,
      ...addressChecks(config),
      changed: () => undefined,
      skills: new SkillService({
        store: store.skills,
        builtIn: builtInSkills,
        now,
        onChanged: () => undefined,
      }),
      credits: {
        change: (creditChange) =>
          changeWithRecall(creditStore, creditChange, (id) =>
            store.ledger.recall(walletName(id), ''),
          ),
        balance: (id) => creditStore.balance(id),
        entries: (id, page) => creditStore.entries(id, page),
      },
      spending: keySpending,
      statements,
      requests: store.requestLog,
      runningRequests: store.runningRequests,
      verify: (...callbacks) => verifyLedger(database, ...callbacks),
      close: () => database.close(),
    };
  },
};
