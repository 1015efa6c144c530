import type { AnswerWriteResult, IdempotentAnswer, Recording } from '../core/recording.ts';

/**
 * Given to the request that has to make an answer for others. The duty ends by `finish` or
 * `release`, or by `release` after a `finish` that failed.
 */
export interface InFlightEntry {
  /**
   * The answer is complete, and is charged before anybody can get it again. A recording of null was
   * too long to be kept; without a charge, nothing is owed. Rejects when the answer is another
   * request's to give, or cannot be charged.
   */
  finish(recording: Recording | null, charge?: ChargeWriter): Promise<void>;
  /** There is no paid answer: another request may make one. */
  release(): Promise<void>;
}

/** The charge for an answer; one of the two methods writes it down. */
export interface ChargeWriter {
  saveSettlement(): Promise<void> | void;
  /**
   * Writes charge and answer in one change; the charge alone while the store is away; nothing if
   * another request took the answer over.
   */
  saveWithAnswer(answer: IdempotentAnswer): Promise<AnswerWriteResult>;
}
