import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { ReadCache } from '../core/bounded-map.ts';
import type { ByokMode, Credential } from '../core/caller.ts';
import { GatewayError, unavailable } from '../core/errors.ts';
import { labelOfKey } from '../core/provider-key.ts';
import { derivedKey, Secret, type SecretKeys } from '../core/secret.ts';

/** Tenants whose credentials are kept in memory; beyond this the oldest is asked for again. */
const tenantsMax = 50_000;

/** A credential as it is kept: the key encrypted, the rest readable. Times are epoch ms. */
export interface StoredCredential {
  readonly tenantId: string;
  readonly provider: string;
  readonly ciphertext: Uint8Array;
  readonly baseUrl: string | null;
  readonly mode: ByokMode;
  /** `•••abcd`: enough to recognise a key, useless to guess it. */
  readonly label: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** The store that the vault needs. Saving and removing move the directory's version. */
export interface VaultStore {
  /** All of one tenant, by provider. */
  list(tenantId: string): Promise<readonly StoredCredential[]>;
  /**
   * Takes one credential, encrypted by each key that the process holds, by their fingerprints, and
   * keeps the one of the key in use: it replaces what was there but for its `createdAt`. Undefined,
   * and nothing saved, when none of these keys is in use.
   */
  save(byKey: ReadonlyMap<string, StoredCredential>): Promise<StoredCredential | undefined>;
  remove(tenantId: string, provider: string): Promise<boolean>;
  /** Whether some key is in use, though nothing may be encrypted with it yet. */
  hasKey(): Promise<boolean>;
  /**
   * Whether these include every key that is needed. The first process that asks decides: its first
   * key is the one in use. A start may bring another as long as nothing is encrypted with that one.
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
  /** A gateway's start may bring a new key; a command beside a running gateway may not. */
  readonly isStart: boolean;
  /** Told once per reading: a row that was tampered with, or encrypted with another key. */
  onUndecryptable?(tenantId: string, provider: string): void;
}

/**
 * Keeps tenants' provider credentials: encrypted in the store, ready for use in memory. `forget()`
 * empties the memory when the directory's version moved, so a change reaches every process within
 * one poll.
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

  /** Refuses a key that cannot read what is kept: all credentials would quietly be lost. */
  static async open(deps: VaultDeps): Promise<Vault> {
    const vault = new Vault(deps);
    const fingerprints = vault.#keys.map((key) => key.fingerprint);
    if (!(await deps.store.claimKeys(fingerprints, deps.isStart))) throw wrongKey();
    return vault;
  }

  /** Answers at once, without touching the store, for a tenant seen before. */
  credentialsOf(tenantId: string): readonly Credential[] | Promise<readonly Credential[]> {
    return this.#known.get(tenantId) ?? this.#known.set(tenantId, this.#read(tenantId));
  }

  async save(credential: NewCredential, now: number): Promise<StoredCredential> {
    const { apiKey, ...rest } = credential;
    const label = labelOfKey(apiKey);
    const purpose = purposeOf(credential);
    // The store knows which key is in use: a rotation changes it for all processes at once.
    const byKey = this.#keys.map((key) => {
      const ciphertext = key.seal(apiKey, purpose);
      const row = { ...rest, ciphertext, label, createdAt: now, updatedAt: now };
      return [key.fingerprint, row] as const;
    });
    const saved = await this.#store.save(new Map(byKey));
    if (!saved) throw cannotSave();
    this.forget();
    return saved;
  }

  /** Drops everything remembered; the next request of each tenant asks the store. */
  forget(): void {
    this.#known.clear();
  }

  /** For tenants in use, before their next request: the store may be away by then. */
  async refresh(tenantIds: readonly string[]): Promise<void> {
    // Where it fails, the next request asks.
    await Promise.allSettled(tenantIds.map((tenantId) => this.credentialsOf(tenantId)));
  }

  async #read(tenantId: string): Promise<readonly Credential[]> {
    const rows = await this.#store.list(tenantId).catch(credentialsUnavailable);
    return rows.map((row) => this.#open(row));
  }

  #open(row: StoredCredential): Credential {
    const { tenantId, provider, baseUrl, mode, updatedAt } = row;
    const opened = this.#keys.map((key) => key.open(row.ciphertext, purposeOf(row)));
    const text = opened.find((one) => one !== undefined);
    if (text === undefined) this.#onUndecryptable(tenantId, provider);
    const apiKey = text === undefined ? null : new Secret(text);
    return { provider, apiKey, baseUrl, mode, scope: `${tenantId} ${updatedAt}` };
  }
}

/**
 * What a ciphertext is good for: this tenant, at this provider, at this address. In any other row
 * it does not open, and an address that was changed behind the tenant's back does not get the key.
 */
export function purposeOf(
  binding: Pick<StoredCredential, 'tenantId' | 'provider' | 'baseUrl'>,
): string {
  return JSON.stringify(['byok credential', binding.tenantId, binding.provider, binding.baseUrl]);
}

function credentialsUnavailable(cause: unknown): never {
  throw unavailable('The credentials cannot be read right now.', cause);
}

/** Another process has started with another key since we did; tenants need not know which errs. */
function cannotSave(): GatewayError {
  const message = 'Credentials cannot be saved right now; the operator has to look after it.';
  return new GatewayError('service_unavailable', message, { cause: wrongKey() });
}

export function wrongKey(): GatewayError {
  const message =
    'The secret key is not the one that tenants’ provider credentials are encrypted with; ' +
    'set TOLLGATE_SECRET_KEY to that one (or bring back its secret.key), the same for every ' +
    'process, or TOLLGATE_FORMER_SECRET_KEY until "tollgate secret rotate" is done; ' +
    'or remove the credentials with "tollgate byok delete".';
  return new GatewayError('service_unavailable', message);
}

/** First byte of what is sealed, so that another way of sealing can follow one day. */
const version = 1;
const nonceBytes = 12;
const tagBytes = 16;

/** One sealing key from each secret, in the same order. */
export function sealingKeysOf([current, ...previous]: SecretKeys): readonly [
  SealingKey,
  ...SealingKey[],
] {
  return [new SealingKey(current), ...previous.map((secret) => new SealingKey(secret))];
}

/**
 * Encrypts small secrets with AES-256-GCM. The purpose is authenticated with them: what was sealed
 * for one purpose does not open for another. Its key is derived, so that the operator's secret key
 * itself is never used twice.
 */
export class SealingKey {
  readonly #key: Uint8Array;
  /** Names the key without telling it. */
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

  /** Undefined for what was changed, sealed for another purpose, or sealed with another key. */
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
