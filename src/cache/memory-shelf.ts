import type { Kept, Shelf } from './shelf.ts';

interface Place {
  readonly recording: Kept;
  readonly bytes: number;
  readonly until: number;
}

/** Text is UTF-16 at worst, and each entry has a cost of its own. */
const bytesPerCharacter = 2;
const bytesPerPlace = 500;

/**
 * When there is no room, one place in so many goes, all at once. To find its oldest entry, a Map of
 * this runtime passes all that were deleted before it, one by one: on a shelf with a quarter of a
 * million places, each new one took longer than the rest of its request.
 */
const placesPerDropped = 100;

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
    if (this.#bytes > this.#bytesMax) this.#makeRoom();
  }

  #makeRoom(): void {
    let toDrop = Math.ceil(this.#places.size / placesPerDropped);
    for (const [oldest, place] of this.#places) {
      if (this.#bytes <= this.#bytesMax && toDrop <= 0) break;
      this.#remove(oldest, place);
      toDrop -= 1;
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
