import type { Usage } from './usage.ts';

/**
 * A recorded provider answer. Replaying it runs the same code as the first time, free of charge, so
 * one recording serves both streams and complete responses.
 */
export interface Recording {
  /** The provider's dialect. */
  readonly dialect: string;
  readonly form: 'stream' | 'reply';
  /** The answer, byte for byte, as text. */
  readonly text: string;
  /** The model alias and the provider that answered. */
  readonly model: string;
  readonly provider: string;
  /** The parameters that were not sent to the provider, as listed in the header. */
  readonly dropped?: string | undefined;
  /** The request it was recorded for, as reported to its client. Absent in older recordings. */
  readonly first?: FirstRequest;
}

/** Storing a recording longer than this can take seconds. Shorter recordings don't wait for it. */
const longLength = 500_000;

export function isLongRecording(recording: Recording | null): boolean {
  return recording !== null && recording.text.length > longLength;
}

/** The request that paid for an answer, and its cost. */
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
  /** Identifies the request that used the key first. */
  readonly fingerprint: string;
  readonly requestId: string;
}

/** The answer to all further requests with a claim's key. */
export interface IdempotentAnswer {
  readonly claim: IdempotencyClaim;
  /** Null if the answer was too long to store. */
  readonly recording: Recording | null;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

/** The store has the answer, was unreachable, or has assigned the claim to another request. */
export type AnswerWriteResult = 'written' | 'unwritten' | 'taken_over';

/**
 * Held by the request whose answer others wait for. Its holder must call `finish` or `release`. If
 * `finish` fails, the holder must call `release`.
 */
export interface InFlightEntry {
  /** True if an earlier request paid for this answer, but its answer was lost. */
  readonly isPaid?: boolean;
  /**
   * Charges and publishes the complete answer, in this order. A null recording was too long to
   * store. Without a charge, nothing is owed. Rejects if another request has taken over, or if the
   * charge can't be written.
   */
  finish(recording: Recording | null, charge?: ChargeWriter): Promise<void>;
  /** Gives up without an answer, so that another request can be sent. */
  release(): Promise<void>;
}

/** Writes the charge for an answer. Only one of the methods is called. */
export interface ChargeWriter {
  saveSettlement(): Promise<void> | void;
  /**
   * Writes the charge and the answer in one transaction. Writes only the charge if the store is
   * unreachable, and nothing if another request has taken over.
   */
  saveWithAnswer(answer: IdempotentAnswer): Promise<AnswerWriteResult>;
}
