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

/** How many fruitless requests another one waits for: each may take as long as a timeout. */
const lostFlightsMax = 2;

/**
 * Answers that may be given again. Of identical requests at the same time one is sent, and the
 * others wait for its answer. If it brings none, the next is sent; if that one brings none either,
 * all requests that have waited for both are sent.
 */
export class ResponseCache {
  readonly #shelf: Shelf;
  readonly #ttlSeconds: number;
  readonly #now: () => number;
  readonly #flights = new Map<string, Flight>();

  /**
   * `now` is one clock for all processes that share the shelf, because they judge the age of each
   * other's answers.
   */
  constructor(shelf: Shelf, ttlSeconds: number, now: () => number) {
    this.#shelf = shelf;
    this.#ttlSeconds = ttlSeconds;
    this.#now = now;
  }

  /**
   * An answer, or the duty to make it; no duty for requests that want nothing kept. `use` turns a
   * recording into the wanted answer; undefined: it cannot, and a new one must be made.
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
      // The answer was made after we asked, so it is young enough for any request.
      const brought = use(landed);
      if (brought !== undefined) return { found: brought };
      break;
    }
    return { duty: wish.mayWrite ? this.#takeOff(key) : undefined };
  }

  #isYoungEnough({ recordedAt }: Kept, { maxAgeSeconds }: Directives): boolean {
    // A recording dated in the future is from before the clock was set back: its age is a guess.
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
