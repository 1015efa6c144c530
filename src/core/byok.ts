import type { Secret } from './secret.ts';

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
