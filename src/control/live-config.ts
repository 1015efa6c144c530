import type { Config, StoredDocument } from '../config/config.ts';
import { ConfigProblems } from '../config/problems.ts';
import { changePollMs } from '../core/bounds.ts';
import { failureMessage } from '../core/errors.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import type { SecretKeys } from '../core/secret.ts';
import type { Log } from '../telemetry/log.ts';
import type { ConfigStore, StoredObject } from './config-store.ts';
import { ConfigVault } from './config-vault.ts';
import { keyRotationTasks } from './key-rotation.ts';

/** Which configuration this process uses. */
export interface ConfigState {
  /** The latest version of the objects in the store that this process has read. */
  readonly version: number;
  /** The version in use. It is older if the latest one is invalid together with the file. */
  readonly appliedVersion: number;
  /** Why the latest version isn't in use, or which of its objects had to be left out at startup. */
  readonly problems: readonly string[];
}

/**
 * Merges the objects in the store into the configuration of the file. If the result is invalid, for
 * example because the file of this machine has changed, the previous configuration stays in use.
 */
export class LiveConfig {
  readonly #store: ConfigStore;
  readonly vault: ConfigVault;
  readonly #log: Log;
  /** The configuration of the file, the environment, and the command line. */
  #base: Config;
  #current: Config;
  #stored: readonly StoredDocument[] = [];
  #state: ConfigState = { version: -1, appliedVersion: -1, problems: [] };
  /** The problems of the objects that are left out. */
  #leftOut: readonly string[] = [];
  #onChange: (next: Config) => void = () => undefined;
  /** True until the latest version has been read, after a failure to read it. */
  #isOutdated = false;

  private constructor(base: Config, store: ConfigStore, vault: ConfigVault, log: Log) {
    this.#base = base;
    this.#current = base;
    this.#store = store;
    this.vault = vault;
    this.#log = log;
  }

  /**
   * Reads the store. Objects that are invalid are left out, because a gateway that doesn't start
   * would serve nobody.
   */
  static async open(
    base: Config,
    store: ConfigStore,
    secrets: SecretKeys,
    log: Log,
  ): Promise<LiveConfig> {
    const live = new LiveConfig(base, store, new ConfigVault(secrets), log);
    const { version, stored } = await live.#read();
    const { config, problems } = withoutInvalid(base, stored);
    live.#current = config;
    live.#stored = stored;
    live.#leftOut = problems;
    live.#state = { version, appliedVersion: version, problems };
    for (const problem of problems) log.error('config_object_ignored', { problem });
    return live;
  }

  get current(): Config {
    return this.#current;
  }

  /** The configuration without the objects of the store. */
  get base(): Config {
    return this.#base;
  }

  get state(): ConfigState {
    return this.#state;
  }

  /** Sets what applies a changed configuration. It changes nothing if it throws. */
  onChange(apply: (next: Config) => void): void {
    this.#onChange = apply;
  }

  periodicTasks(): PeriodicTask[] {
    const retry = async () => (this.#isOutdated ? this.check() : undefined);
    const cleanup = keyRotationTasks({
      ...{ store: this.#store, now: Date.now },
      ...{ vault: () => this.vault, current: () => this.#current },
    });
    return [{ everyMs: changePollMs, run: retry }, ...cleanup];
  }

  /** Uses another configuration of the file. Throws, and changes nothing, if it is invalid. */
  rebase(base: Config): Config {
    const next = this.#apply(base, this.#stored, this.#state.version);
    this.#base = base;
    return next;
  }

  /** Uses the latest objects of the store. Never throws for an invalid configuration. */
  async check(): Promise<void> {
    this.#isOutdated = true;
    const { version, stored } = await this.#read();
    this.#isOutdated = false;
    // A concurrent check may have read a later version.
    if (version <= this.#state.version) return;
    this.#stored = stored;
    try {
      const { length: models } = this.#apply(this.#base, stored, version).models;
      this.#log.info('config_reloaded', { source: 'store', version, models });
    } catch (error) {
      const problems =
        error instanceof ConfigProblems ? error.message.split('\n') : [failureMessage(error)];
      this.#state = { ...this.#state, version, problems };
      for (const problem of problems) {
        this.#log.error('config_rejected', { problem, version });
      }
    }
  }

  /** Throws, and changes nothing, if the configuration is invalid. */
  #apply(base: Config, stored: readonly StoredDocument[], version: number): Config {
    const { config, problems } = this.#merged(base, stored);
    this.#onChange(config);
    this.#current = config;
    this.#leftOut = problems;
    this.#state = { version, appliedVersion: version, problems };
    return config;
  }

  #merged(base: Config, stored: readonly StoredDocument[]): Merged {
    try {
      return { config: merged(base, stored), problems: [] };
    } catch (error) {
      // An object that was left out at startup doesn't keep operators from changing others.
      const rest = withoutInvalid(base, stored);
      if (rest.problems.every((problem) => this.#leftOut.includes(problem))) return rest;
      throw error;
    }
  }

  async #read(): Promise<{ version: number; stored: readonly StoredDocument[] }> {
    const { version, objects } = await this.#store.read();
    return { version, stored: objects.map((object) => this.vault.open(object)) };
  }
}

const merged = (base: Config, stored: readonly StoredDocument[]) =>
  stored.length === 0 ? base : base.withStored(stored);

interface Merged {
  readonly config: Config;
  /** Why some objects are left out. */
  readonly problems: readonly string[];
}

/** Returns the configuration that a gateway with these objects in its store starts with. */
export function configAtStart(
  base: Config,
  objects: readonly StoredObject[],
  secrets: SecretKeys,
): Merged {
  const vault = new ConfigVault(secrets);
  return withoutInvalid(
    base,
    objects.map((object) => vault.open(object)),
  );
}

/** Leaves out objects until the rest is valid, such as models of a provider that was removed. */
function withoutInvalid(base: Config, stored: readonly StoredDocument[]): Merged {
  const problems: string[] = [];
  for (let rest = stored; rest.length > 0; ) {
    try {
      return { config: base.withStored(rest), problems };
    } catch (error) {
      if (!(error instanceof ConfigProblems)) throw error;
      problems.push(...error.message.split('\n'));
      const isInvalid = ({ kind, name }: StoredDocument) =>
        error.problems.some(({ object }) => object?.kind === kind && object.name === name);
      const valid = rest.filter((object) => !isInvalid(object));
      // The problem may be in the file, for example if a setting in the store turns something off.
      rest = valid.length < rest.length ? valid : [];
    }
  }
  return { config: base, problems };
}
