import { GatewayError } from '../core/errors.ts';
import type { SecretKeys } from '../core/secret.ts';
import {
  purposeOf,
  type SealingKey,
  type StoredCredential,
  sealingKeysOf,
  wrongKey,
} from './vault.ts';

/** Small batches, so that running gateways can save credentials in between. */
const batchSize = 200;

/** A re-encrypted credential; `before` identifies the row and its previous state. */
export interface ReencryptedCredential {
  readonly before: StoredCredential;
  readonly ciphertext: Uint8Array;
}

/** Keys are identified by their fingerprints. */
export interface RotationStore {
  /** Returns all tenants' credentials in a fixed order, starting after `after`. */
  page(after: StoredCredential | undefined, count: number): Promise<readonly StoredCredential[]>;
  /**
   * Makes `target` the current key; the previous one stays required until `finish`. Returns false,
   * without a change, if a key in use or still required is missing from `held`.
   */
  switchTo(target: string, held: readonly string[]): Promise<boolean>;
  /** Skips rows that have changed since they were read. Returns false if `inUse` isn't current. */
  reencrypt(rows: readonly ReencryptedCredential[], inUse: string): Promise<boolean>;
  /** Drops all other keys. Returns false if `inUse` isn't the current key. */
  finish(inUse: string): Promise<boolean>;
}

/** How many credentials each key decrypts. */
interface KeyCounts {
  readonly current: number;
  readonly previous: number;
  /** Tampered with, moved to another row, or encrypted with an unknown key. */
  readonly undecryptable: number;
}

/** Counts the credentials that each key opens. Changes nothing. */
export function countByKey(
  store: Pick<RotationStore, 'page'>,
  secrets: SecretKeys,
): Promise<KeyCounts> {
  return visitAll(store, sealingKeysOf(secrets), async () => undefined);
}

/**
 * Re-encrypts tenants' credentials with a new secret key while gateways that have both keys are
 * running. After an interruption, run it again.
 */
export class SecretRotation {
  readonly #store: RotationStore;
  readonly #keys: ReturnType<typeof sealingKeysOf>;

  constructor(store: RotationStore, secrets: SecretKeys) {
    this.#store = store;
    this.#keys = sealingKeysOf(secrets);
  }

  /** Counts credentials without changing them. */
  async count(): Promise<KeyCounts> {
    return visitAll(this.#store, this.#keys, async () => undefined);
  }

  /** Re-encrypts all readable credentials. Returns the counts from before the rotation. */
  async rotate(): Promise<KeyCounts> {
    const [current, previous] = this.#keys;
    if (!previous) throw noPreviousKey();
    const { fingerprint } = current;
    const held = this.#keys.map((key) => key.fingerprint);
    if (!(await this.#store.switchTo(fingerprint, held))) throw wrongKey();
    const counts = await visitAll(this.#store, this.#keys, async (rows) => {
      if (!(await this.#store.reencrypt(rows, fingerprint))) throw wrongKey();
    });
    if (!(await this.#store.finish(fingerprint))) throw wrongKey();
    return counts;
  }
}

/** Without a previous key, a rotation would report success without doing anything. */
function noPreviousKey(): GatewayError {
  const message =
    'TOLLGATE_PREVIOUS_SECRET_KEY is not set. Set it to the secret key that you are replacing.';
  return new GatewayError('service_unavailable', message);
}

async function visitAll(
  store: Pick<RotationStore, 'page'>,
  [current, ...previous]: ReturnType<typeof sealingKeysOf>,
  reencrypt: (rows: readonly ReencryptedCredential[]) => Promise<void>,
): Promise<KeyCounts> {
  const counts = { current: 0, previous: 0, undecryptable: 0 };
  let last: StoredCredential | undefined;
  do {
    const rows = await store.page(last, batchSize);
    const reencrypted: ReencryptedCredential[] = [];
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
      reencrypted.push({ before: row, ciphertext: current.seal(apiKey, purposeOf(row)) });
    }
    if (reencrypted.length > 0) await reencrypt(reencrypted);
    last = rows.at(-1);
  } while (last !== undefined);
  return counts;
}

function decrypt(row: StoredCredential, key: SealingKey): string | undefined {
  return key.open(row.ciphertext, purposeOf(row));
}
