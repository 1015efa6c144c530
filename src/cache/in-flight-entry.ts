import type { AnswerWriteResult, IdempotentAnswer, Recording } from '../core/recording.ts';

/**
 * Held by the request whose answer others wait for. Must be ended by `finish` or `release`, or by
 * `release` after a failed `finish`.
 */
export interface InFlightEntry {
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
