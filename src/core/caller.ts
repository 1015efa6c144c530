/** Who is calling, as every step after authentication knows them. */

export const scopes = ['chat', 'embeddings', 'audio', 'images', 'jobs', 'customer'] as const;
export type Scope = (typeof scopes)[number];

export const cacheModes = ['off', 'auto', 'always'] as const;
export type CacheMode = (typeof cacheModes)[number];

export type KeyKind = 'routing' | 'management';

/** A key and its tenant, joined and frozen. Lives in the auth cache; never holds a secret. */
export interface Caller {
  readonly tenantId: string;
  readonly keyId: string;
  readonly kind: KeyKind;
  /** `null`: every scope. */
  readonly scopes: readonly Scope[] | null;
  /** `null`: every model. A trailing `*` stands for any rest. */
  readonly models: readonly string[] | null;
  readonly requestsPerMinute: number | null;
  readonly concurrentRequests: number | null;
  readonly cacheMode: CacheMode | null;
  /** Credits this key may spend per period; `null`: as much as the wallet has. */
  readonly limitCredits: number | null;
  readonly limitReset: LimitReset | null;
  /** Epoch milliseconds after which the key (or its rotated-out secret) stops working. */
  readonly expiresAt: number | null;
}

export const limitResets = ['daily', 'weekly', 'monthly'] as const;
export type LimitReset = (typeof limitResets)[number];

/** Whether a key's allow-list admits a model alias. */
export function mayUseModel(caller: Caller, alias: string): boolean {
  if (caller.models === null) return true;
  return caller.models.some((pattern) =>
    pattern.endsWith('*') ? alias.startsWith(pattern.slice(0, -1)) : pattern === alias,
  );
}
