import type { Secret } from './secret.ts';

export const scopes = ['chat', 'embeddings', 'audio', 'images', 'jobs', 'customer'] as const;
export type Scope = (typeof scopes)[number];

export const cacheModes = ['off', 'auto', 'always'] as const;
export type CacheMode = (typeof cacheModes)[number];

export type KeyKind = 'routing' | 'management';

/**
 * A key and its tenant, as every stage after authentication sees them. Frozen and cached, so it
 * never contains a secret.
 */
export interface Caller {
  readonly tenantId: string;
  readonly keyId: string;
  readonly kind: KeyKind;
  /** Null allows every scope. */
  readonly scopes: readonly Scope[] | null;
  /** Null allows every model. A trailing `*` is a wildcard. */
  readonly models: readonly string[] | null;
  /** The key's limit, or its tenant's if that is lower. Null means the operator's default. */
  readonly requestsPerMinute: number | null;
  /** For all keys of the tenant together. Null means that only each key is limited. */
  readonly tenantRequestsPerMinute: number | null;
  readonly concurrentRequests: number | null;
  /** The tenant's plan. Null means the default plan. */
  readonly plan: string | null;
  readonly cacheMode: CacheMode | null;
  /** Credits this key can spend per period. Null means the wallet's balance is the only limit. */
  readonly limitCredits: number | null;
  readonly limitReset: LimitReset | null;
  /**
   * When the key, or its previous secret after a rotation, stops working, in epoch milliseconds.
   */
  readonly expiresAt: number | null;
}

export const limitResets = ['daily', 'weekly', 'monthly'] as const;
export type LimitReset = (typeof limitResets)[number];

/**
 * Returns whether the key's allow-list contains a model. A name without a brand stands for that
 * model of every brand.
 */
export function mayUseModel(caller: Caller, id: string): boolean {
  if (caller.models === null) return true;
  return caller.models.some((pattern) => {
    if (pattern.endsWith('*')) return id.startsWith(pattern.slice(0, -1));
    return pattern === id || (!pattern.includes('/') && id.endsWith(`/${pattern}`));
  });
}

/** Returns the UTC day, week, or month that contains a time. `until` is exclusive. */
export function limitPeriod(reset: LimitReset, now: number) {
  const date = new Date(now);
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
  // getUTCDay starts at Sunday, but weeks start on Monday.
  const monday = day - ((date.getUTCDay() + 6) % 7);
  switch (reset) {
    case 'daily':
      return { from: Date.UTC(year, month, day), until: Date.UTC(year, month, day + 1) };
    case 'weekly':
      return { from: Date.UTC(year, month, monday), until: Date.UTC(year, month, monday + 7) };
    case 'monthly':
      return { from: Date.UTC(year, month), until: Date.UTC(year, month + 1) };
  }
}

/**
 * Bring your own key: a tenant's provider account replaces the operator's. `byok_first` falls back
 * to shared capacity; `byok_only` never does.
 */
export const byokModes = ['byok_first', 'byok_only'] as const;
export type ByokMode = (typeof byokModes)[number];

/** Whose provider account was used: the operator's or the tenant's. */
export type TrafficMode = 'shared' | 'byok';

/** A tenant's decrypted provider key. Exists only in memory. */
export interface Credential {
  readonly provider: string;
  /** Null if the stored key can't be decrypted. The credential can't be used then. */
  readonly apiKey: Secret | null;
  /** Null means the provider's configured URL. */
  readonly baseUrl: string | null;
  readonly mode: ByokMode;
  /**
   * Identifies this version of the credential. Health is tracked per version, so it restarts when
   * the key is replaced.
   */
  readonly credentialVersion: string;
}
