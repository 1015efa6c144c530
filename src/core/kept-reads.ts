import { putBounded } from './put-bounded.ts';

/**
 * A bounded cache of what the store said, by name. First it keeps the promise of a reading, so that
 * a burst of requests asks the store once; then what was found. A reading that fails or finds
 * nothing is not kept.
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
    putBounded(this.#known, name, reading, this.#sizeMax);
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
