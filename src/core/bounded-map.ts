/**
 * A bounded cache of store lookups by name. It holds the promise of a lookup first, so that a burst
 * of requests queries the store once, and then the value. Lookups that fail or find nothing aren't
 * cached.
 */
export class ReadCache<Found extends object | undefined> {
  readonly #sizeMax: number;
  readonly #entries = new Map<string, NonNullable<Found> | Promise<Found>>();

  constructor(sizeMax: number) {
    this.#sizeMax = sizeMax;
  }

  get(name: string): NonNullable<Found> | Promise<Found> | undefined {
    return this.#entries.get(name);
  }

  /** Caches a lookup and returns it. */
  set(name: string, read: Promise<Found>): Promise<Found> {
    putBounded(this.#entries, name, read, this.#sizeMax);
    const store = (found: Found | undefined) => {
      // If `clear()` was called meanwhile, don't cache this outdated value.
      if (this.#entries.get(name) !== read) return;
      if (found) this.#entries.set(name, found);
      else this.#entries.delete(name);
    };
    read.then(store, () => store(undefined));
    return read;
  }

  delete(name: string): void {
    this.#entries.delete(name);
  }

  clear(): void {
    this.#entries.clear();
  }
}

/** Adds a value to a map, dropping the oldest entry if the map is full. */
export function putBounded<V>(map: Map<string, V>, name: string, value: V, sizeMax: number): void {
  const oldest = map.size >= sizeMax ? map.keys().next().value : undefined;
  if (oldest !== undefined) map.delete(oldest);
  map.set(name, value);
}
