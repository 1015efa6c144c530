import { GatewayError } from '../core/errors.ts';
import type { SecretKeys } from '../core/secret.ts';
import {
  purposeOf,
  type SealingKey,
  type StoredCredential,
  sealingKeysOf,
  wrongKey,
} from './vault.ts';

/** Credentials that are read and written at a time: running gateways save between two batches. */
const batchSize = 200;

/** A credential that was encrypted anew; `before` says which one is meant. */
export interface Resealed {
  readonly before: StoredCredential;
  readonly ciphertext: Uint8Array;
}

/** The store that a rotation needs. Keys are named by their fingerprints. */
export interface RotationStore {
  /** All tenants' credentials in a fixed order, those behind `after`. */
  page(after: StoredCredential | undefined, count: number): Promise<readonly StoredCredential[]>;
  /**
   * From now on `wanted` encrypts, and the one before is needed until `finish`. False, and nothing
   * changed, where a key is in use or still needed that is not among those `held`.
   */
  switchTo(target: string, held: readonly string[]): Promise<boolean>;
  /** Leaves out what was saved or removed meanwhile. False when `inUse` does not encrypt now. */
  reseal(rows: readonly Resealed[], inUse: string): Promise<boolean>;
  /** No other key is needed any more. False when `inUse` does not encrypt now. */
  finish(inUse: string): Promise<boolean>;
}

/** How many credentials each key opens. */
interface KeyCounts {
  readonly current: number;
  readonly previous: number;
  /** Tampered with, moved to another row, or encrypted with a key that is not at hand. */
  readonly undecryptable: number;
}

/**
 * Encrypts tenants' credentials with a new secret key while gateways run that hold both. If it is
 * interrupted, running it again does the rest.
 */
export class SecretRotation {
  readonly #store: RotationStore;
  readonly #keys: ReturnType<typeof sealingKeysOf>;

  constructor(store: RotationStore, secrets: SecretKeys) {
    this.#store = store;
    this.#keys = sealingKeysOf(secrets);
  }

  /** The counts as they are; nothing is changed. */
  async count(): Promise<KeyCounts> {
    return this.#visitAll(async () => undefined);
  }

  /** The counts before; afterwards all readable ones are encrypted with the current key. */
  async rotate(): Promise<KeyCounts> {
    const [current, previous] = this.#keys;
    if (!previous) throw noPreviousKey();
    const { fingerprint } = current;
    const held = this.#keys.map((key) => key.fingerprint);
    if (!(await this.#store.switchTo(fingerprint, held))) throw wrongKey();
    const counts = await this.#visitAll(async (rows) => {
      if (!(await this.#store.reseal(rows, fingerprint))) throw wrongKey();
    });
    if (!(await this.#store.finish(fingerprint))) throw wrongKey();
    return counts;
  }

  async #visitAll(reseal: (rows: readonly Resealed[]) => Promise<void>): Promise<KeyCounts> {
    const counts = { current: 0, previous: 0, undecryptable: 0 };
    const [current, ...previous] = this.#keys;
    let last: StoredCredential | undefined;
    do {
      const rows = await this.#store.page(last, batchSize);
      const resealed: Resealed[] = [];
      for (const row of rows) {
        if (decrypt(row, current) !== undefined) {
          counts.current++;
          continue;
        }
        const apiKey = previous.map((key) => decrypt(row, key)).find((text) => text !== undefined);
        if (apiKey === undefined) {
          counts.undecryptable++;
          continue;
        }
        counts.previous++;
        resealed.push({ before: row, ciphertext: current.seal(apiKey, purposeOf(row)) });
      }
      if (resealed.length > 0) await reseal(resealed);
      last = rows.at(-1);
    } while (last !== undefined);
    return counts;
  }
}

/** Without a former key, a rotation would say that nothing is left to do, and might be believed. */
function noPreviousKey(): GatewayError {
  const message =
    'TOLLGATE_FORMER_SECRET_KEY is not set: it has to be the secret key that is being replaced.';
  return new GatewayError('service_unavailable', message);
}

function decrypt(row: StoredCredential, key: SealingKey): string | undefined {
  return key.open(row.ciphertext, purposeOf(row));
}
