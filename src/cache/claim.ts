import type { Recording } from '../core/recording.ts';

/** One use of an `Idempotency-Key`. */
export interface Claim {
  readonly tenantId: string;
  readonly key: string;
  /** Names the request it was first used with. */
  readonly fingerprint: string;
  readonly requestId: string;
}

export type Claimed =
  /** Nobody used it before, or whoever did never finished: ours to answer. */
  | { readonly state: 'ours' }
  | { readonly state: 'other_request' }
  | { readonly state: 'running' }
  /** Null when the answer was too long to be kept. */
  | { readonly state: 'done'; readonly recording: Recording | null };

/** Where claims are kept: in the store, because they decide what is charged. */
export interface ClaimStore {
  claim(claim: Claim, now: number, leaseMs: number): Promise<Claimed>;
  /** Those still being answered by this process stay its own. */
  extend(claims: readonly Claim[], until: number): Promise<void>;
  /** False: its lease was over, and another has taken it. */
  finish(claim: Claim, recording: Recording | null, expiresAt: number): Promise<boolean>;
  /** An answer that was written down goes too only if `evenDone`. */
  release(claim: Claim, evenDone: boolean): Promise<void>;
  removeExpired(now: number): Promise<void>;
  /** By tenant, what its answers take; those without any may be missing. */
  keptBytes(): Promise<ReadonlyMap<string, number>>;
}
