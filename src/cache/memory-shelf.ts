import type { Kept, Shelf } from './shelf.ts';

interface Place {
  readonly recording: Kept;
  readonly bytes: number;
  readonly until: number;
}

/** Text is UTF-16 at worst, and each entry has a cost of its own. */
const bytesPerCharacter = 2;
const bytesPerPlace = 500;

/** Recordings in this process's memory; when it is full, those unused for longest go first. */
export class MemoryShelf implements Shelf {
  readonly #bytesMax: number;
  readonly #now: () => number;
  /** In the order of their last use. */
  readonly #places = new Map<string, Place>();
  #bytes = 0;

  /** Uses a clock that nobody sets: one that is set back would keep everything for longer. */
  constructor(bytesMax: number, now: () => number = () => performance.now()) {
    this.#bytesMax = bytesMax;
    this.#now = now;
  }

  get bytes(): number {
    return this.#bytes;
  }

  find(key: string): Kept | undefined {
    const place = this.#places.get(key);
    if (!place) return undefined;
    this.#remove(key, place);
    if (place.until <= this.#now()) return undefined;
    this.#put(key, place);
    return place.recording;
  }

  keep(key: string, recording: Kept, ttlSeconds: number): void {
    const before = this.#places.get(key);
    if (before) this.#remove(key, before);
    const bytes = recording.text.length * bytesPerCharacter + bytesPerPlace;
    if (bytes > this.#bytesMax) return;
    this.#put(key, { recording, bytes, until: this.#now() + ttlSeconds * 1000 });
    for (const [oldest, place] of this.#places) {
      if (this.#bytes <= this.#bytesMax) break;
      this.#remove(oldest, place);
    }
  }

  #put(key: string, place: Place): void {
    this.#places.set(key, place);
    this.#bytes += place.bytes;
  }

  #remove(key: string, place: Place): void {
    this.#places.delete(key);
    this.#bytes -= place.bytes;
  }
}
