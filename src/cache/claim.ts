import type { Claim, NamedAnswer } from '../core/claim.ts';
import type { Recording } from '../core/recording.ts';

export type Claimed =
  /** The key is new, or the request that used it never finished: ours to answer. */
  | { readonly state: 'ours' }
  | { readonly state: 'other_request' }
  /** The key is in use: where two came at once, maybe by another request. The next look tells. */
  | { readonly state: 'running' }
  /** Null when the answer was too long to be kept, or was lost with its process. */
  | { readonly state: 'done'; readonly recording: Recording | null };

/** Where claims are kept: in the store, because they decide what is charged. */
export interface ClaimStore {
  claim(claim: Claim, now: number, leaseMs: number): Promise<Claimed>;
  /** Prolongs claims that this process is still answering, so that no other takes them over. */
  extend(claims: readonly Claim[], until: number): Promise<void>;
  /** Keeps an answer that was not written with its charge. False: another one is kept already. */
  finish(answer: NamedAnswer): Promise<boolean>;
  /** Frees the claim, unless its answer is kept: that answer was paid for. */
  release(claim: Claim): Promise<void>;
  removeExpired(now: number): Promise<void>;
  /** The bytes that each tenant's kept answers take; an expired one may count for an hour more. */
  keptBytes(): Promise<ReadonlyMap<string, number>>;
}
