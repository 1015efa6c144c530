import { GatewayError } from '../core/errors.ts';
import { configObjectPurpose, type SecretKeys } from '../core/secret.ts';
import { purposeOf, type StoredCredential, sealingKeysOf, wrongKey } from './vault.ts';

/** Small batches, so that running gateways can save credentials in between. */
const batchSize = 200;

/** A re-encrypted credential; `before` identifies the row and its previous state. */
export interface ReencryptedCredential {
  readonly before: StoredCredential;
  readonly ciphertext: Uint8Array;
}

/** The encrypted secrets of a configuration object. */
export interface SealedObject {
  readonly kind: string;
  readonly name: string;
  readonly sealed: Uint8Array;
}

/** Configuration secrets that were encrypted again; `before` is the previous state of the row. */
export interface ReencryptedObject {
  readonly before: SealedObject;
  readonly sealed: Uint8Array;
}

/** Keys are identified by their fingerprints. */
export interface RotationStore {
  /** Returns all tenants' credentials in a fixed order, starting after `after`. */
  page(after: StoredCredential | undefined, count: number): Promise<readonly StoredCredential[]>;
  /** Returns the secrets of all configuration objects that have any. */
  sealedObjects(): Promise<readonly SealedObject[]>;
  /**
   * Makes `target` the current key; the previous one stays required until `finish`. Returns false,
   * without a change, if a key in use or still required is missing from `held`.
   */
  switchTo(target: string, held: readonly string[]): Promise<boolean>;
  /** Skips rows that have changed since they were read. Returns false if `inUse` isn't current. */
  reencrypt(rows: readonly ReencryptedCredential[], inUse: string): Promise<boolean>;
  /** The same for configuration objects. */
  reencryptObjects(objects: readonly ReencryptedObject[], inUse: string): Promise<boolean>;
  /** Drops all other keys. Returns false if `inUse` isn't the current key. */
  finish(inUse: string): Promise<boolean>;
}

/** How many credentials and configuration objects each key decrypts. */
interface KeyCounts {
  readonly current: number;
  readonly previous: number;
  /** Tampered with, moved to another row, or encrypted with an unknown key. */
  readonly undecryptable: number;
}

/** Counts the credentials and configuration objects that each key opens. Changes nothing. */
export function countByKey(store: SealedRows, secrets: SecretKeys): Promise<KeyCounts> {
  return visitAll(store, sealingKeysOf(secrets));
}

type SealedRows = Pick<RotationStore, 'page' | 'sealedObjects'>;

/**
 * Re-encrypts provider keys and other secrets with a new secret key while gateways that have both
 * keys are running. After an interruption, run it again.
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
    return visitAll(this.#store, this.#keys);
  }

  /** Re-encrypts all readable credentials. Returns the counts from before the rotation. */
  async rotate(): Promise<KeyCounts> {
    const [current, previous] = this.#keys;
    if (!previous) throw noPreviousKey();
    const { fingerprint } = current;
    const held = this.#keys.map((key) => key.fingerprint);
    if (!(await this.#store.switchTo(fingerprint, held))) throw wrongKey();
    const requireInUse = (isInUse: boolean) => {
      if (!isInUse) throw wrongKey();
    };
    const counts = await visitAll(this.#store, this.#keys, {
      rows: async (rows) => requireInUse(await this.#store.reencrypt(rows, fingerprint)),
      objects: async (objects) =>
        requireInUse(await this.#store.reencryptObjects(objects, fingerprint)),
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

interface Reencrypt {
  rows(rows: readonly ReencryptedCredential[]): Promise<void>;
  objects(objects: readonly ReencryptedObject[]): Promise<void>;
}

async function visitAll(
  store: SealedRows,
  keys: ReturnType<typeof sealingKeysOf>,
  reencrypt?: Reencrypt,
): Promise<KeyCounts> {
  const counts = { current: 0, previous: 0, undecryptable: 0 };
  const [current] = keys;
  /** Counts a ciphertext. Returns the new one if it was encrypted with a previous key. */
  const visit = (sealed: Uint8Array, purpose: string): Uint8Array | undefined => {
    const opened = keys.map((key) => key.open(sealed, purpose));
    const index = opened.findIndex((text) => text !== undefined);
    counts[index === 0 ? 'current' : index > 0 ? 'previous' : 'undecryptable']++;
    return index > 0 ? current.seal(opened[index] ?? '', purpose) : undefined;
  };
  let last: StoredCredential | undefined;
  do {
    const rows = await store.page(last, batchSize);
    const reencrypted = rows.flatMap((before): ReencryptedCredential[] => {
      const ciphertext = visit(before.ciphertext, purposeOf(before));
      return ciphertext ? [{ before, ciphertext }] : [];
    });
    if (reencrypted.length > 0) await reencrypt?.rows(reencrypted);
    last = rows.at(-1);
  } while (last !== undefined);
  const objects = (await store.sealedObjects()).flatMap((before): ReencryptedObject[] => {
    const sealed = visit(before.sealed, configObjectPurpose(before.kind, before.name));
    return sealed ? [{ before, sealed }] : [];
  });
  if (objects.length > 0) await reencrypt?.objects(objects);
  return counts;
}
