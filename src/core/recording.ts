import type { Usage } from './usage.ts';

/**
 * What an upstream said, kept to be heard again. Replaying it runs the same code as the first time,
 * free of charge; so one recording serves streams and whole replies alike.
 */
export interface Recording {
  /** The upstream's dialect. */
  readonly dialect: string;
  readonly form: 'stream' | 'whole';
  /** The answer, byte for byte as text. */
  readonly text: string;
  /** The alias and the provider that answered. */
  readonly model: string;
  readonly provider: string;
  /** The parameters that its provider was not asked for, as the header lists them. */
  readonly dropped?: string | undefined;
  /** The request that it was made for, as its client was told; left out in older recordings. */
  readonly first?: FirstRequest;
}

/** In characters. A busy store may take seconds for a longer one: others do not wait for it. */
const longLength = 500_000;

export function isLongRecording(recording: Recording | null): boolean {
  return recording !== null && recording.text.length > longLength;
}

/** The request that paid for an answer, and what it cost. */
export interface FirstRequest {
  readonly requestId: string;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  readonly endedAt: number;
  readonly usage: Usage;
  readonly costCredits: number;
}

/** One use of an `Idempotency-Key`. */
export interface IdempotencyClaim {
  readonly tenantId: string;
  readonly key: string;
  /** Names the request it was first used with. */
  readonly fingerprint: string;
  readonly requestId: string;
}

/** What a claim is answered with from then on. */
export interface IdempotentAnswer {
  readonly claim: IdempotencyClaim;
  /** Null when it was too long to be kept. */
  readonly recording: Recording | null;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

/**
 * Whether the store has the answer now, could not be reached, or has given the claim to another.
 */
export type AnswerWriteResult = 'written' | 'unwritten' | 'taken_over';
