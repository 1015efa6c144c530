import type { Recording } from '../core/recording.ts';

/** Where recordings are kept for a while: in this process, or in Redis for all of them. */
export interface Shelf {
  /** Never rejects: a shelf out of reach is an empty one. */
  find(key: string): Recording | undefined | Promise<Recording | undefined>;
  keep(key: string, recording: Recording, ttlSeconds: number): void;
}
