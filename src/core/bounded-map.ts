/**
 * A bounded cache of what the store said, by name. First it keeps the promise of a reading, so that
 * a burst of requests asks the store once; then what was found. A reading that fails or finds
 * nothing is not kept.
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

  /** The same reading, remembered. */
  set(name: string, read: Promise<Found>): Promise<Found> {
    putBounded(this.#entries, name, read, this.#sizeMax);
    const store = (found: Found | undefined) => {
      // After a `forget()` meanwhile, this older answer must not come back.
      if (this.#entries.get(name) !== read) return;
      if (found) this.#entries.set(name, found);
      else this.#entries.delete(name);
    };
    read.then(store, () => store(undefined));
    return read;
  }

  clear(): void {
    this.#entries.clear();
  }
}

/** Puts a value into a map; one that is full loses what was put in first. */
export function putBounded<V>(map: Map<string, V>, name: string, value: V, sizeMax: number): void {
  const oldest = map.size >= sizeMax ? map.keys().next().value : undefined;
  if (oldest !== undefined) map.delete(oldest);
  map.set(name, value);
}
