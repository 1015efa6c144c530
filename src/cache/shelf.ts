import type { Recording } from '../core/recording.ts';

/** A recording on a shelf. */
export interface Kept extends Recording {
  /** Epoch milliseconds, by the clock that all who share the shelf go by. */
  readonly recordedAt: number;
}

/** Where recordings are kept for a while: in this process, or in Redis for all processes. */
export interface Shelf {
  /** Never rejects: a shelf out of reach is an empty one. */
  find(key: string): Kept | undefined | Promise<Kept | undefined>;
  keep(key: string, recording: Kept, ttlSeconds: number): void;
}
