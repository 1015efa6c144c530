import type { Secret } from './secret.ts';

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

/** The UTC day, week or month around a time, until the first millisecond of the next. */
export function limitPeriod(reset: LimitReset, now: number) {
  const date = new Date(now);
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
  // getUTCDay counts from Sunday, weeks begin on Monday.
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

/** Bring your own key: a tenant's account at a provider, used in place of the operator's. */

/** `byok_first` falls back to shared capacity; `byok_only` never does. */
export const byokModes = ['byok_first', 'byok_only'] as const;
export type ByokMode = (typeof byokModes)[number];

/** Whose account at the provider answered: the operator's or the caller's own. */
export type TrafficMode = 'shared' | 'byok';

/** A tenant's credential as routing needs it. Lives in memory only. */
export interface Credential {
  readonly provider: string;
  /** `null`: what is stored cannot be read, so that it cannot be used either. */
  readonly apiKey: Secret | null;
  /** `null`: the provider's own address. */
  readonly baseUrl: string | null;
  readonly mode: ByokMode;
  /** Names this very credential: health is counted apart for it, and anew once it is replaced. */
  readonly scope: string;
}
