import type { Recording } from '../core/recording.ts';

/** Given to the request that has to make an answer for others; exactly one of the two is called. */
export interface Duty {
  /** The answer is complete. Null: it was too long to be kept. */
  finish(recording: Recording | null): Promise<void>;
  /** There will be none: somebody else may make it. */
  release(): Promise<void>;
}
