import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { ReadCache } from '../core/bounded-map.ts';
import type { ByokMode, Credential } from '../core/caller.ts';
import { GatewayError, unavailable } from '../core/errors.ts';
import { knownCredentials } from '../core/known-credentials.ts';
import { labelOfKey } from '../core/provider-key.ts';
import { derivedKey, Secret, type SecretKeys } from '../core/secret.ts';
import type { ChangedTenants } from './tenant-directory.ts';

/** Maximum number of tenants whose credentials are cached. The oldest is evicted. */
const tenantsMax = 50_000;

/** A stored credential. Only the provider key is encrypted. Times are epoch milliseconds. */
export interface StoredCredential {
  readonly tenantId: string;
  readonly provider: string;
  readonly ciphertext: Uint8Array;
  readonly baseUrl: string | null;
  readonly mode: ByokMode;
  /** `•••abcd`: identifies a key without revealing it. */
  readonly label: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** Saving and removing increase the version of the directory. */
export interface VaultStore {
  /** Returns a tenant's credentials, sorted by provider. */
  list(tenantId: string): Promise<readonly StoredCredential[]>;
  /**
   * Saves one credential. `byKey` has one copy per key of the process, encrypted with that key, by
   * the key's fingerprint. The store saves only the copy for the current key. It replaces an
   * existing credential except its `createdAt`. Returns undefined, without saving, if none of these
   * keys is current.
   */
  save(byKey: ReadonlyMap<string, StoredCredential>): Promise<StoredCredential | undefined>;
  remove(tenantId: string, provider: string): Promise<boolean>;
  /** Returns true if a key is current, even if nothing is encrypted with it yet. */
  hasKey(): Promise<boolean>;
  /**
   * Returns true if these include every required key. The first process to call this sets the
   * current key. A later start may replace it as long as nothing is encrypted with it.
   */
  claimKeys(fingerprints: readonly string[], isStart: boolean): Promise<boolean>;
}

export interface NewCredential {
  readonly tenantId: string;
  readonly provider: string;
  readonly apiKey: string;
  readonly baseUrl: string | null;
  readonly mode: ByokMode;
}

export interface VaultDeps {
  readonly store: VaultStore;
  readonly secrets: SecretKeys;
  /** True for a gateway. At startup, it may set a new key; commands must not. */
  readonly isStart: boolean;
  /** Called once per read for a row that was tampered with or encrypted with another key. */
  onUndecryptable?(tenantId: string, provider: string): void;
}

/**
 * Stores tenants' provider credentials encrypted and caches them decrypted. `forget()` clears the
 * cache when the version of the directory changes, so a change applies in every process within one
 * poll.
 */
export class Vault {
  readonly #store: VaultStore;
  readonly #keys: ReturnType<typeof sealingKeysOf>;
  readonly #onUndecryptable: NonNullable<VaultDeps['onUndecryptable']>;
  readonly #known = new ReadCache<readonly Credential[]>(tenantsMax);

  private constructor({ store, secrets, onUndecryptable }: VaultDeps) {
    this.#store = store;
    this.#keys = sealingKeysOf(secrets);
    this.#onUndecryptable = onUndecryptable ?? (() => undefined);
  }

  /** Throws for a wrong key, which would make all stored credentials unreadable. */
  static async open(deps: VaultDeps): Promise<Vault> {
    const vault = new Vault(deps);
    const fingerprints = vault.#keys.map((key) => key.fingerprint);
    if (!(await deps.store.claimKeys(fingerprints, deps.isStart))) throw wrongKey();
    return vault;
  }

  /** A cached tenant needs no store read. */
  credentialsOf(tenantId: string): readonly Credential[] | Promise<readonly Credential[]> {
    return this.#known.get(tenantId) ?? this.#known.set(tenantId, this.#read(tenantId));
  }

  async save(credential: NewCredential, now: number): Promise<StoredCredential> {
    const { apiKey, ...rest } = credential;
    const label = labelOfKey(apiKey);
    const purpose = purposeOf(credential);
    // The store picks the current key, because a rotation may change it at any time.
    const byKey = this.#keys.map((key) => {
      const ciphertext = key.seal(apiKey, purpose);
      const row = { ...rest, ciphertext, label, createdAt: now, updatedAt: now };
      return [key.fingerprint, row] as const;
    });
    knownCredentials.add(apiKey);
    const saved = await this.#store.save(new Map(byKey));
    if (!saved) throw cannotSave();
    this.forget();
    return saved;
  }

  /** Clears these tenants, or all of them; their next request reads the store. */
  forget(tenants: ChangedTenants = null): void {
    if (tenants === null) this.#known.clear();
    else for (const tenantId of tenants) this.#known.delete(tenantId);
  }

  /** Caches credentials now, because the store may be unreachable when they are next used. */
  async refresh(tenantIds: readonly string[]): Promise<void> {
    // After a failure, the next request reads the store.
    await Promise.allSettled(tenantIds.map((tenantId) => this.credentialsOf(tenantId)));
  }

  async #read(tenantId: string): Promise<readonly Credential[]> {
    const rows = await this.#store.list(tenantId).catch(credentialsUnavailable);
    return rows.map((row) => this.#open(row));
  }

  #open(row: StoredCredential): Credential {
    const { tenantId, provider, baseUrl, mode, updatedAt } = row;
    const opened = this.#keys.map((key) => key.open(row.ciphertext, purposeOf(row)));
    const text = opened.find((candidate) => candidate !== undefined);
    if (text === undefined) this.#onUndecryptable(tenantId, provider);
    const apiKey = text === undefined ? null : new Secret(text);
    if (text !== undefined) knownCredentials.add(text);
    return { provider, apiKey, baseUrl, mode, credentialVersion: `${tenantId} ${updatedAt}` };
  }
}

/**
 * Binds a ciphertext to its tenant, provider, and base URL. It can't be decrypted in another row,
 * and a tampered base URL doesn't receive the key.
 */
export function purposeOf(
  binding: Pick<StoredCredential, 'tenantId' | 'provider' | 'baseUrl'>,
): string {
  return JSON.stringify(['byok credential', binding.tenantId, binding.provider, binding.baseUrl]);
}

function credentialsUnavailable(cause: unknown): never {
  throw unavailable(
    "The provider keys can't be read right now. Send the request again shortly.",
    cause,
  );
}

/** Another process has started with a different key. Tenants don't need these details. */
function cannotSave(): GatewayError {
  const message = "Provider keys can't be saved right now. Contact the operator.";
  return new GatewayError('service_unavailable', message, { cause: wrongKey() });
}

export function wrongKey(): GatewayError {
  const message =
    "The secret key doesn't match the stored provider keys. Set TOLLGATE_SECRET_KEY to the key " +
    'that encrypted them, or restore secret.key. Use the same key for every process. During a ' +
    'rotation, set TOLLGATE_PREVIOUS_SECRET_KEY to the replaced key until "tollgate secret ' +
    'rotate" is done. Or delete the provider keys with "tollgate byok delete".';
  return new GatewayError('service_unavailable', message);
}

/** The first byte of a sealed text, so that the format can change. */
const version = 1;
const nonceBytes = 12;
const tagBytes = 16;

/** Derives one sealing key from each secret, in the same order. */
export function sealingKeysOf([current, ...previous]: SecretKeys): readonly [
  SealingKey,
  ...SealingKey[],
] {
  return [new SealingKey(current), ...previous.map((secret) => new SealingKey(secret))];
}

/**
 * Encrypts small secrets with AES-256-GCM. The purpose is additional authenticated data, so a text
 * sealed for one purpose can't be opened for another. The key is derived from the secret key, which
 * is also used for other purposes.
 */
export class SealingKey {
  readonly #key: Uint8Array;
  /** Identifies the key without revealing it. */
  readonly fingerprint: string;

  constructor(secret: Secret) {
    this.#key = derivedKey(secret, 'seal');
    this.fingerprint = derivedKey(secret, 'fingerprint').subarray(0, 16).toHex();
  }

  seal(text: string, purpose: string): Uint8Array {
    const nonce = randomBytes(nonceBytes);
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce);
    cipher.setAAD(Buffer.from(purpose));
    const sealed = [cipher.update(text, 'utf8'), cipher.final()];
    return new Uint8Array(
      Buffer.concat([Buffer.of(version), nonce, ...sealed, cipher.getAuthTag()]),
    );
  }

  /** Returns undefined for a tampered text, another purpose, or another key. */
  open(sealed: Uint8Array, purpose: string): string | undefined {
    const start = 1 + nonceBytes;
    const end = sealed.length - tagBytes;
    if (sealed[0] !== version || end < start) return undefined;
    const decipher = createDecipheriv('aes-256-gcm', this.#key, sealed.subarray(1, start));
    decipher.setAAD(Buffer.from(purpose));
    decipher.setAuthTag(sealed.subarray(end));
    try {
      const text = decipher.update(sealed.subarray(start, end));
      return Buffer.concat([text, decipher.final()]).toString('utf8');
    } catch {
      return undefined;
    }
  }
}
