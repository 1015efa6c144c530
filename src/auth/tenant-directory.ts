import type { tenantSorts } from '../contract/admin.ts';
import { changePollMs } from '../core/bounds.ts';
import type { CacheMode, KeyKind, LimitReset, Scope } from '../core/caller.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';

/** A customer: the owner of keys, a wallet, and logs. Tenants never see each other's data. */
export interface Tenant {
  readonly id: string;
  readonly name: string;
  readonly disabled: boolean;
  /** For all keys of the tenant together. Null means that each key has the operator's default. */
  readonly requestsPerMinute: number | null;
  /** Null means the operator's default. */
  readonly concurrentRequests: number | null;
  /** The name of the plan whose prices the tenant pays. Null means the default plan. */
  readonly plan: string | null;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A key without its secret. Only the hash of the secret is stored. */
export interface ApiKey {
  readonly id: string;
  readonly tenantId: string;
  readonly kind: KeyKind;
  /** `sk-tg-ab12…9f`: identifies a key without revealing it. */
  readonly label: string;
  readonly name: string;
  readonly disabled: boolean;
  /** True if only the operator can enable the key again. */
  readonly disabledByOperator?: boolean;
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

/** The settings of a key without restrictions. */
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
  Pick<Tenant, 'name' | 'disabled' | 'requestsPerMinute' | 'concurrentRequests' | 'plan'>
>;

export type KeyChange = Partial<
  Pick<ApiKey, 'name' | 'disabled' | 'disabledByOperator' | keyof typeof unrestricted>
>;

/** Replaces the secret of a key; the previous one works until `previousSecretExpiresAt`. */
export interface NewSecret {
  readonly hash: Uint8Array;
  readonly label: string;
  readonly previousSecretExpiresAt: number;
}

/** The key and tenant of a secret. */
export interface KeyMatch {
  readonly key: ApiKey;
  readonly tenant: Tenant;
  /** The stored hash, for a constant-time comparison after the lookup. */
  readonly hash: Uint8Array;
  /** When a previous secret expires; null for the current one. */
  readonly secretExpiresAt: number | null;
}

export interface Page {
  readonly limit: number;
  readonly offset: number;
}

export interface TenantOrder {
  readonly by: (typeof tenantSorts)[number];
  readonly isDescending: boolean;
  /** Days since 1970, both inclusive, whose requests and charges are summed. */
  readonly days: { readonly first: number; readonly last: number };
}

export interface TenantPage extends Page {
  /** A part of the name or id. ASCII letters match in any case. */
  readonly search?: string;
  /** Null for tenants of any plan. */
  readonly plan?: string | null;
  /** The default is oldest first. */
  readonly order?: TenantOrder;
}

export interface KeyPage extends Page {
  readonly includeDisabled: boolean;
  /** Words of the name or label, or the start of the id. ASCII letters match in any case. */
  readonly search?: string;
}

/** Stores tenants and keys. Times are epoch milliseconds. */
export interface TenantDirectory {
  /** Finds a key by the SHA-256 hash of its text: current secrets first, then previous ones. */
  findKey(hash: Uint8Array): Promise<KeyMatch | undefined>;

  addTenant(tenant: Tenant): Promise<'added' | 'exists'>;
  getTenant(id: string): Promise<Tenant | undefined>;
  listTenants(page: TenantPage): Promise<readonly Tenant[]>;
  changeTenant(id: string, change: TenantChange, now: number): Promise<Tenant | undefined>;

  /** Returns `full` if the tenant already has `keysMax` keys. */
  addKey(key: ApiKey, hash: Uint8Array, keysMax?: number): Promise<'added' | 'exists' | 'full'>;
  /** Every lookup is limited to the tenant's own keys. */
  getKey(tenantId: string, id: string): Promise<ApiKey | undefined>;
  countKeys(tenantId: string): Promise<number>;
  listKeys(tenantId: string, page: KeyPage): Promise<readonly ApiKey[]>;
  changeKey(
    tenantId: string,
    id: string,
    change: KeyChange,
    now: number,
  ): Promise<ApiKey | undefined>;
  /** Deletes the key; logs and ledger keep its id. */
  deleteKey(tenantId: string, id: string, now: number): Promise<boolean>;
  /** Replaces the secret. The ID and the usage stay the same. */
  rotateKey(
    tenantId: string,
    id: string,
    secret: NewSecret,
    now: number,
  ): Promise<ApiKey | undefined>;
  /** Writes when each key was last used, in a batch. */
  markUsed(lastUsed: ReadonlyMap<string, number>): Promise<void>;

  /** Returns the hash of the admin token, or undefined before the first start. */
  adminTokenHash(): Promise<Uint8Array | undefined>;
  setAdminTokenHash(hash: Uint8Array): Promise<void>;
  /** Sets the hash if there is none. Returns true for the one caller that set it. */
  claimAdminToken(hash: Uint8Array): Promise<boolean>;

  /** Deletes the rows of keys that were deleted before this time without ever being used. */
  purgeUnusedKeys(deletedBefore: number): Promise<void>;

  /** Returns a number that increases with every change above except `markUsed`. */
  version(): Promise<number>;
  /** Returns the tenants that the changes between two versions concern, or null for all tenants. */
  tenantsChanged(after: number, until: number): Promise<ChangedTenants>;
}

/** The tenants whose cached data is outdated; null means all tenants and the admin token. */
export type ChangedTenants = ReadonlySet<string> | null;

/**
 * Detects changes to keys, tenants, credentials, and skills by any process within half a second. It
 * polls, because a notification could get lost, and a poll is only one cheap read. While the store
 * is unreachable, cached data remains in use.
 */
export class ChangeWatcher {
  readonly #directory: Pick<TenantDirectory, 'version' | 'tenantsChanged'>;
  readonly #onChange: (tenants: ChangedTenants) => void | Promise<void>;
  #seen: number | undefined;

  constructor(
    directory: Pick<TenantDirectory, 'version' | 'tenantsChanged'>,
    onChange: (tenants: ChangedTenants) => void | Promise<void>,
  ) {
    this.#directory = directory;
    this.#onChange = onChange;
  }

  periodicTasks(): PeriodicTask[] {
    return [{ everyMs: changePollMs, run: () => this.check() }];
  }

  /** Polls now, for callers that have just made a change. */
  async check(): Promise<void> {
    const version = await this.#directory.version();
    const seen = this.#seen;
    if (version === seen) return;
    const tenants = seen === undefined ? null : await this.#directory.tenantsChanged(seen, version);
    // A concurrent check may already have seen a later version.
    if (version > (this.#seen ?? -1)) this.#seen = version;
    await this.#onChange(tenants);
  }
}
