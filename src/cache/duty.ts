import type { Recording } from '../core/recording.ts';

/**
 * Given to the request that has to make an answer for others. It ends with one of the two; or with
 * both, where an answer was complete and could not be charged after all.
 */
export interface Duty {
  /** The answer is complete. Null: it was too long to be kept. Rejects: it is another's to give. */
  finish(recording: Recording | null): Promise<void>;
  /** There is none that was paid for: somebody else may make it. */
  release(): Promise<void>;
}
