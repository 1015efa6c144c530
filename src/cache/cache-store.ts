import type { Recording } from '../core/recording.ts';

/** A recording on a shelf. */
export interface CachedRecording extends Recording {
  /** Epoch milliseconds, by the clock that all who share the shelf go by. */
  readonly recordedAt: number;
}

/** Where recordings are kept for a while: in this process, or in Redis for all processes. */
export interface CacheStore {
  /** Never rejects: a shelf out of reach is an empty one. */
  find(key: string): CachedRecording | undefined | Promise<CachedRecording | undefined>;
  save(key: string, recording: CachedRecording, ttlSeconds: number): void;
}

interface CacheEntry {
  readonly recording: CachedRecording;
  readonly bytes: number;
  readonly until: number;
}

/** Text is UTF-16 at worst, and each entry has a cost of its own. */
const bytesPerCharacter = 2;
const bytesPerEntry = 500;

/**
 * When there is no room, one place in so many goes, all at once. To find its oldest entry, a Map of
 * this runtime passes all that were deleted before it, one by one: on a shelf with a quarter of a
 * million places, each new one took longer than the rest of its request.
 */
const entriesPerEviction = 100;

/** Recordings in this process's memory; when it is full, those unused for longest go first. */
export class MemoryCacheStore implements CacheStore {
  readonly #bytesMax: number;
  readonly #now: () => number;
  /** In the order of their last use. */
  readonly #entries = new Map<string, CacheEntry>();
  #bytes = 0;

  /** Uses a clock that nobody sets: one that is set back would keep everything for longer. */
  constructor(bytesMax: number, now: () => number = () => performance.now()) {
    this.#bytesMax = bytesMax;
    this.#now = now;
  }

  get bytes(): number {
    return this.#bytes;
  }

  find(key: string): CachedRecording | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    this.#remove(key, entry);
    if (entry.until <= this.#now()) return undefined;
    this.#put(key, entry);
    return entry.recording;
  }

  save(key: string, recording: CachedRecording, ttlSeconds: number): void {
    const previous = this.#entries.get(key);
    if (previous) this.#remove(key, previous);
    const bytes = recording.text.length * bytesPerCharacter + bytesPerEntry;
    if (bytes > this.#bytesMax) return;
    this.#put(key, { recording, bytes, until: this.#now() + ttlSeconds * 1000 });
    if (this.#bytes > this.#bytesMax) this.#evict();
  }

  #evict(): void {
    let toEvict = Math.ceil(this.#entries.size / entriesPerEviction);
    for (const [oldest, entry] of this.#entries) {
      if (this.#bytes <= this.#bytesMax && toEvict <= 0) break;
      this.#remove(oldest, entry);
      toEvict -= 1;
    }
  }

  #put(key: string, entry: CacheEntry): void {
    this.#entries.set(key, entry);
    this.#bytes += entry.bytes;
  }

  #remove(key: string, entry: CacheEntry): void {
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
  }
}
