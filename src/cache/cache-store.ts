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
  save(key: string, recording: CachedRecording, ttlSeconds: number, tenantId: string): void;
}

interface CacheEntry {
  readonly tenantId: string;
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

/** The most that one tenant may use, so that it can't evict all entries of the others. */
const tenantShareMax = 1 / 2;

/** Entries in order of last use, and their size. */
class EntryList {
  readonly entries = new Map<string, CacheEntry>();
  bytes = 0;

  put(key: string, entry: CacheEntry): void {
    this.entries.set(key, entry);
    this.bytes += entry.bytes;
  }

  remove(key: string, entry: CacheEntry): void {
    this.entries.delete(key);
    this.bytes -= entry.bytes;
  }
}

/**
 * Keeps recordings in this process's memory. Evicts the least recently used ones, of the tenant if
 * its share is full, or of all tenants.
 */
export class MemoryCacheStore implements CacheStore {
  readonly #bytesMax: number;
  readonly #now: () => number;
  readonly #all = new EntryList();
  readonly #byTenant = new Map<string, EntryList>();

  /**
   * The default clock is monotonic, because setting the system clock back would extend all
   * lifetimes.
   */
  constructor(bytesMax: number, now: () => number = () => performance.now()) {
    this.#bytesMax = bytesMax;
    this.#now = now;
  }

  get bytes(): number {
    return this.#all.bytes;
  }

  find(key: string): CachedRecording | undefined {
    const entry = this.#all.entries.get(key);
    if (!entry) return undefined;
    this.#remove(key, entry);
    if (entry.until <= this.#now()) return undefined;
    this.#put(key, entry);
    return entry.recording;
  }

  save(key: string, recording: CachedRecording, ttlSeconds: number, tenantId: string): void {
    const previous = this.#all.entries.get(key);
    if (previous) this.#remove(key, previous);
    const bytes = recording.text.length * bytesPerCharacter + bytesPerEntry;
    const tenantBytesMax = this.#bytesMax * tenantShareMax;
    if (bytes > tenantBytesMax) return;
    this.#put(key, { tenantId, recording, bytes, until: this.#now() + ttlSeconds * 1000 });
    const own = this.#byTenant.get(tenantId);
    if (own && own.bytes > tenantBytesMax) this.#evict(own, tenantBytesMax);
    if (this.#all.bytes > this.#bytesMax) this.#evict(this.#all, this.#bytesMax);
  }

  #evict(list: EntryList, bytesMax: number): void {
    let toEvict = Math.ceil(list.entries.size / evictionDivisor);
    for (const [oldest, entry] of list.entries) {
      if (list.bytes <= bytesMax && toEvict <= 0) break;
      this.#remove(oldest, entry);
      toEvict -= 1;
    }
  }

  #put(key: string, entry: CacheEntry): void {
    this.#all.put(key, entry);
    const own = this.#byTenant.get(entry.tenantId) ?? new EntryList();
    this.#byTenant.set(entry.tenantId, own);
    own.put(key, entry);
  }

  #remove(key: string, entry: CacheEntry): void {
    this.#all.remove(key, entry);
    const own = this.#byTenant.get(entry.tenantId);
    own?.remove(key, entry);
    if (own?.entries.size === 0) this.#byTenant.delete(entry.tenantId);
  }
}
