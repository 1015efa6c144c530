import type { NamedAnswer, Remembered } from '../core/claim.ts';
import type { Recording } from '../core/recording.ts';

/**
 * Given to the request that has to make an answer for others. It ends by `finish` or `release`, or
 * by `release` after a `finish` that failed.
 */
export interface Duty {
  /**
   * The answer is complete, and is charged before anybody can get it again. Null: it was too long
   * to be kept. No charge: nothing is owed for it. Rejects: it is another's to give, or cannot be
   * charged.
   */
  finish(recording: Recording | null, charge?: Charge): Promise<void>;
  /** There is no answer that was paid for: another request may make it. */
  release(): Promise<void>;
}

/** What an answer costs; one of the two writes it down. */
export interface Charge {
  keep(): Promise<void> | void;
  /** In one change with the answer; by itself while the store is away; not at all if taken over. */
  keepWith(answer: NamedAnswer): Promise<Remembered>;
}
