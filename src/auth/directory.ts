import { changePollMs } from '../core/bounds.ts';
import type { CacheMode, KeyKind, LimitReset, Scope } from '../core/caller.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';

/** A customer: the owner of keys, a wallet, logs and everything else that must not leak. */
export interface Tenant {
  readonly id: string;
  readonly name: string;
  readonly disabled: boolean;
  /** `null`: the operator's defaults apply. */
  readonly requestsPerMinute: number | null;
  readonly concurrentRequests: number | null;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A key without its secret: only the secret's hash is stored, and it never leaves the store. */
export interface ApiKey {
  readonly id: string;
  readonly tenantId: string;
  readonly kind: KeyKind;
  /** `sk-tg-ab12…9f`: enough to recognise a key, useless to guess it. */
  readonly label: string;
  readonly name: string;
  readonly disabled: boolean;
  readonly limitCredits: number | null;
  readonly limitReset: LimitReset | null;
  readonly models: readonly string[] | null;
  readonly scopes: readonly Scope[] | null;
  readonly requestsPerMinute: number | null;
  readonly cacheMode: CacheMode | null;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly expiresAt: number | null;
  readonly lastUsedAt: number | null;
}

/** The settings of a key that may do whatever its tenant may. */
export const unrestricted = {
  limitCredits: null,
  limitReset: null,
  models: null,
  scopes: null,
  requestsPerMinute: null,
  cacheMode: null,
  expiresAt: null,
} as const;

export type TenantChange = Partial<
  Pick<Tenant, 'name' | 'disabled' | 'requestsPerMinute' | 'concurrentRequests'>
>;

export type KeyChange = Partial<Pick<ApiKey, 'name' | 'disabled' | keyof typeof unrestricted>>;

/** A secret that takes the place of a key's; the old one keeps working until `oldUntil`. */
export interface NewSecret {
  readonly hash: Uint8Array;
  readonly label: string;
  readonly oldUntil: number;
}

/** What a presented secret resolves to. */
export interface KeyMatch {
  readonly key: ApiKey;
  readonly tenant: Tenant;
  /** The stored hash, for the constant-time comparison after the look-up. */
  readonly hash: Uint8Array;
  /** Set when the secret was rotated out and only works until then. */
  readonly secretExpiresAt: number | null;
}

export interface Page {
  readonly limit: number;
  readonly offset: number;
}

/** What an operator may sort tenants by. */
export const tenantSorts = [
  'created_at',
  'name',
  'credits',
  'spend',
  'requests',
  'failed_requests',
  'written_off',
] as const;

export interface TenantOrder {
  readonly by: (typeof tenantSorts)[number];
  readonly isDescending: boolean;
  /** The days since 1970, both inclusive, whose requests and charges are counted. */
  readonly days: { readonly first: number; readonly last: number };
}

export interface TenantPage extends Page {
  /** A part of the name or id; the case of A to Z does not matter. */
  readonly search?: string;
  /** Left out: oldest first. */
  readonly order?: TenantOrder;
}

export interface KeyPage extends Page {
  readonly includeDisabled: boolean;
  /** Words of the name or label, or the beginning of the id; the case of A to Z does not matter. */
  readonly search?: string;
}

/** The store that authentication and key management need. Times are epoch milliseconds. */
export interface Directory {
  /** Finds a key by the SHA-256 of the whole key text: current secret first, then rotated-out. */
  findKey(hash: Uint8Array): Promise<KeyMatch | undefined>;

  addTenant(tenant: Tenant): Promise<'added' | 'exists'>;
  getTenant(id: string): Promise<Tenant | undefined>;
  listTenants(page: TenantPage): Promise<readonly Tenant[]>;
  changeTenant(id: string, change: TenantChange, now: number): Promise<Tenant | undefined>;

  addKey(key: ApiKey, hash: Uint8Array): Promise<'added' | 'exists'>;
  /** Every look-up names the tenant: another tenant's key is as absent as no key. */
  getKey(tenantId: string, id: string): Promise<ApiKey | undefined>;
  countKeys(tenantId: string): Promise<number>;
  listKeys(tenantId: string, page: KeyPage): Promise<readonly ApiKey[]>;
  changeKey(
    tenantId: string,
    id: string,
    change: KeyChange,
    now: number,
  ): Promise<ApiKey | undefined>;
  /** Gone for callers at once; its id stays in logs and ledger. */
  deleteKey(tenantId: string, id: string, now: number): Promise<boolean>;
  /** Puts a new secret in: same id, same usage. */
  rotateKey(
    tenantId: string,
    id: string,
    secret: NewSecret,
    now: number,
  ): Promise<ApiKey | undefined>;
  /** Batched, best effort: when each key was last seen. */
  markUsed(lastUsed: ReadonlyMap<string, number>): Promise<void>;

  /** The hash of the operator's token, or undefined before the first start. */
  adminTokenHash(): Promise<Uint8Array | undefined>;
  setAdminTokenHash(hash: Uint8Array): Promise<void>;
  /** Sets it only if there is none yet; true for the one caller who did. */
  claimAdminToken(hash: Uint8Array): Promise<boolean>;

  /** A number that grows with every change above, so that other processes notice (not markUsed). */
  version(): Promise<number>;
}

/**
 * Notices within half a second that keys, tenants, credentials or skills changed, in this process
 * or another, through HTTP or the command line. One cheap read per poll; nothing is pushed, so
 * nothing can get lost. While the store cannot be reached, what is known stays in force.
 */
export class ChangeWatcher {
  readonly #directory: Pick<Directory, 'version'>;
  readonly #onChange: () => void;
  #seen: number | undefined;

  constructor(directory: Pick<Directory, 'version'>, onChange: () => void) {
    this.#directory = directory;
    this.#onChange = onChange;
  }

  periodicTasks(): PeriodicTask[] {
    return [{ everyMs: changePollMs, run: () => this.check() }];
  }

  /** Looks now; used by those who just made a change and must not wait for the next poll. */
  async check(): Promise<void> {
    const version = await this.#directory.version();
    if (version === this.#seen) return;
    this.#seen = version;
    this.#onChange();
  }
}
