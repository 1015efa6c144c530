/**
 * What the store said, by name, until it is forgotten or was the oldest of too many. The promise of
 * a reading is kept first, so that a burst of requests asks the store once; what it finds then
 * takes its place, and a reading that fails or finds nothing leaves none.
 */
export class KeptReads<Found extends object | undefined> {
  readonly #sizeMax: number;
  readonly #known = new Map<string, NonNullable<Found> | Promise<Found>>();

  constructor(sizeMax: number) {
    this.#sizeMax = sizeMax;
  }

  get(name: string): NonNullable<Found> | Promise<Found> | undefined {
    return this.#known.get(name);
  }

  /** The same reading, remembered. */
  keep(name: string, reading: Promise<Found>): Promise<Found> {
    const oldest = this.#known.size >= this.#sizeMax ? this.#known.keys().next().value : undefined;
    if (oldest !== undefined) this.#known.delete(oldest);
    this.#known.set(name, reading);
    const settle = (found: Found | undefined) => {
      // After a `forget()` meanwhile, this older answer must not come back.
      if (this.#known.get(name) !== reading) return;
      if (found) this.#known.set(name, found);
      else this.#known.delete(name);
    };
    reading.then(settle, () => settle(undefined));
    return reading;
  }

  forget(): void {
    this.#known.clear();
  }
}
