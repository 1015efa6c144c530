import type { Recording } from '../core/recording.ts';

/** A recording in a cache store. */
export interface CachedRecording extends Recording {
  /** Epoch milliseconds on the clock that all users of the store share. */
  readonly recordedAt: number;
}

/** Stores recordings for a limited time: in this process, or in Redis for all processes. */
export interface CacheStore {
  /** Never rejects: an unreachable store is treated as empty. */
  find(key: string): CachedRecording | undefined | Promise<CachedRecording | undefined>;
  save(key: string, recording: CachedRecording, ttlSeconds: number): void;
}

interface CacheEntry {
  readonly recording: CachedRecording;
  readonly bytes: number;
  readonly until: number;
}

/** Text can be UTF-16, and each entry has overhead. */
const bytesPerCharacter = 2;
const bytesPerEntry = 500;

/**
 * A full store evicts 1/100 of its entries at once. To find its oldest entry, a Map scans all
 * entries deleted before it. With 250,000 entries, evicting one entry per save took longer than the
 * rest of the request.
 */
const evictionDivisor = 100;

/** Keeps recordings in this process's memory. Evicts the least recently used ones. */
export class MemoryCacheStore implements CacheStore {
  readonly #bytesMax: number;
  readonly #now: () => number;
  /** In order of last use. */
  readonly #entries = new Map<string, CacheEntry>();
  #bytes = 0;

  /**
   * The default clock is monotonic, because setting the system clock back would extend all
   * lifetimes.
   */
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
    let toEvict = Math.ceil(this.#entries.size / evictionDivisor);
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
