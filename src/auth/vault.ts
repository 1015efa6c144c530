import type { ByokMode, Credential } from '../core/byok.ts';
import { GatewayError, unavailable } from '../core/errors.ts';
import { KeptReads } from '../core/kept-reads.ts';
import { labelOfKey } from '../core/provider-key.ts';
import { Secret, type SecretKeys } from '../core/secret.ts';
import { sealingKeysOf } from './sealing-key.ts';

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

export interface VaultParts {
  readonly store: VaultStore;
  readonly secrets: SecretKeys;
  /** A gateway's start may bring a new key; a command beside a running gateway may not. */
  readonly isStart: boolean;
  /** Told once per reading: a row that was tampered with, or encrypted with another key. */
  onUnreadable?(tenantId: string, provider: string): void;
}

/**
 * Keeps tenants' provider credentials: encrypted in the store, ready for use in memory. `forget()`
 * empties the memory when the directory's version moved, so a change reaches every process within
 * one poll.
 */
export class Vault {
  readonly #store: VaultStore;
  readonly #keys: ReturnType<typeof sealingKeysOf>;
  readonly #onUnreadable: NonNullable<VaultParts['onUnreadable']>;
  readonly #known = new KeptReads<readonly Credential[]>(tenantsMax);

  private constructor({ store, secrets, onUnreadable }: VaultParts) {
    this.#store = store;
    this.#keys = sealingKeysOf(secrets);
    this.#onUnreadable = onUnreadable ?? (() => undefined);
  }

  /** Refuses a key that cannot read what is kept: all credentials would quietly be lost. */
  static async open(parts: VaultParts): Promise<Vault> {
    const vault = new Vault(parts);
    const fingerprints = vault.#keys.map((key) => key.fingerprint);
    if (!(await parts.store.claimKeys(fingerprints, parts.isStart))) throw wrongKey();
    return vault;
  }

  /** Answers at once, without touching the store, for a tenant seen before. */
  credentialsOf(tenantId: string): readonly Credential[] | Promise<readonly Credential[]> {
    return this.#known.get(tenantId) ?? this.#known.keep(tenantId, this.#read(tenantId));
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
    if (!saved) throw cannotKeep();
    this.forget();
    return saved;
  }

  /** Drops everything remembered; the next request of each tenant asks the store. */
  forget(): void {
    this.#known.forget();
  }

  /** For tenants in use, before their next request: the store may be away by then. */
  async readAgain(tenantIds: readonly string[]): Promise<void> {
    // Where it fails, the next request asks.
    await Promise.allSettled(tenantIds.map((tenantId) => this.credentialsOf(tenantId)));
  }

  async #read(tenantId: string): Promise<readonly Credential[]> {
    const rows = await this.#store.list(tenantId).catch(credentialsAway);
    return rows.map((row) => this.#open(row));
  }

  #open(row: StoredCredential): Credential {
    const { tenantId, provider, baseUrl, mode, updatedAt } = row;
    const opened = this.#keys.map((key) => key.open(row.ciphertext, purposeOf(row)));
    const text = opened.find((one) => one !== undefined);
    if (text === undefined) this.#onUnreadable(tenantId, provider);
    const apiKey = text === undefined ? null : new Secret(text);
    return { provider, apiKey, baseUrl, mode, scope: `${tenantId} ${updatedAt}` };
  }
}

/**
 * What a ciphertext is good for: this tenant, at this provider, at this address. In any other row
 * it does not open, and an address that was changed behind the tenant's back does not get the key.
 */
export function purposeOf(of: Pick<StoredCredential, 'tenantId' | 'provider' | 'baseUrl'>): string {
  return JSON.stringify(['byok credential', of.tenantId, of.provider, of.baseUrl]);
}

function credentialsAway(cause: unknown): never {
  throw unavailable('The credentials cannot be read right now.', cause);
}

/** Another process has started with another key since we did; tenants need not know which errs. */
function cannotKeep(): GatewayError {
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
