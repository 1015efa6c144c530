import type { Recording } from './recording.ts';

/** One use of an `Idempotency-Key`. */
export interface Claim {
  readonly tenantId: string;
  readonly key: string;
  /** Names the request it was first used with. */
  readonly fingerprint: string;
  readonly requestId: string;
}

/** What a claim is answered with from then on. */
export interface NamedAnswer {
  readonly claim: Claim;
  /** Null when it was too long to be kept. */
  readonly recording: Recording | null;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

/**
 * Whether the store has the answer now, could not be reached, or has given the claim to another.
 */
export type Remembered = 'written' | 'unwritten' | 'taken_over';
