import { cacheFollowersMax } from '../core/bounds.ts';
import type { Recording } from '../core/recording.ts';
import { unlessAborted } from '../core/within.ts';
import type { Directives } from './directives.ts';
import type { Duty } from './duty.ts';
import type { Kept, Shelf } from './shelf.ts';

interface Flight {
  readonly landed: Promise<Recording | undefined>;
  followers: number;
}

/** How many requests that bring nothing one waits for: each may take as long as a timeout. */
const lostFlightsMax = 2;

/**
 * Answers that may be given again. Of identical requests at the same time one is sent; the others
 * wait for what it brings. If it brings nothing, the next of them is sent; if that one does not
 * either, all that have waited for both.
 */
export class ResponseCache {
  readonly #shelf: Shelf;
  readonly #ttlSeconds: number;
  readonly #now: () => number;
  readonly #flights = new Map<string, Flight>();

  /**
   * `now` is one clock for all who share the shelf: any of them may be asked how old an answer is.
   */
  constructor(shelf: Shelf, ttlSeconds: number, now: () => number) {
    this.#shelf = shelf;
    this.#ttlSeconds = ttlSeconds;
    this.#now = now;
  }

  /**
   * An answer, or the duty to make it; no duty for those who want nothing kept. `use` turns a
   * recording into what is wanted; undefined: it cannot, and another must be made.
   */
  async recall<T>(
    key: string,
    wish: Directives,
    client: AbortSignal,
    use: (recording: Recording) => T | undefined,
  ): Promise<{ found: T } | { duty: Duty | undefined }> {
    let lostFlights = 0;
    while (wish.mayRead) {
      const recording = await this.#shelf.find(key);
      const isFit = recording && this.#isYoungEnough(recording, wish);
      const kept = isFit ? use(recording) : undefined;
      if (kept !== undefined) return { found: kept };
      const flight = lostFlights < lostFlightsMax ? this.#flights.get(key) : undefined;
      if (!flight || flight.followers >= cacheFollowersMax) break;
      flight.followers += 1;
      const landed = await unlessAborted(flight.landed, client);
      if (client.aborted) {
        flight.followers -= 1;
        break;
      }
      if (!landed) {
        lostFlights += 1;
        continue;
      }
      // It was made after we asked, so it is young enough for anybody.
      const brought = use(landed);
      if (brought !== undefined) return { found: brought };
      break;
    }
    return { duty: wish.mayWrite ? this.#takeOff(key) : undefined };
  }

  #isYoungEnough({ recordedAt }: Kept, { maxAgeSeconds }: Directives): boolean {
    // Nobody knows the age of one made in the future, by a clock that was set back since.
    const ageMs = Math.abs(this.#now() - recordedAt);
    return maxAgeSeconds === null || ageMs <= maxAgeSeconds * 1000;
  }

  #keep(key: string, recording: Recording): void {
    this.#shelf.keep(key, { ...recording, recordedAt: this.#now() }, this.#ttlSeconds);
  }

  #takeOff(key: string): Duty {
    const { promise, resolve } = Promise.withResolvers<Recording | undefined>();
    const flight: Flight = { landed: promise, followers: 0 };
    if (!this.#flights.has(key)) this.#flights.set(key, flight);
    const land = (recording: Recording | undefined) => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
      resolve(recording);
    };
    return {
      finish: async (recording, charge) => {
        await charge?.keep();
        if (recording) this.#keep(key, recording);
        land(recording ?? undefined);
      },
      release: async () => land(undefined),
    };
  }
}
