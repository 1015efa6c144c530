import { cacheFollowersMax } from '../core/bounds.ts';
import { unlessAborted } from '../core/deadlines.ts';
import type { Recording } from '../core/recording.ts';
import type { CachedRecording, CacheStore } from './cache-store.ts';
import type { InFlightEntry } from './in-flight-entry.ts';

interface Flight {
  readonly result: Promise<Recording | undefined>;
  followers: number;
}

/** How many fruitless requests another one waits for: each may take as long as a timeout. */
const failedFlightsMax = 2;

/**
 * Answers that may be given again. Of identical requests at the same time one is sent, and the
 * others wait for its answer. If it brings none, the next is sent; if that one brings none either,
 * all requests that have waited for both are sent.
 */
export class ResponseCache {
  readonly #store: CacheStore;
  readonly #ttlSeconds: number;
  readonly #now: () => number;
  readonly #flights = new Map<string, Flight>();

  /**
   * `now` is one clock for all processes that share the shelf, because they judge the age of each
   * other's answers.
   */
  constructor(store: CacheStore, ttlSeconds: number, now: () => number) {
    this.#store = store;
    this.#ttlSeconds = ttlSeconds;
    this.#now = now;
  }

  /**
   * An answer, or the duty to make it; no duty for requests that want nothing kept. `use` turns a
   * recording into the wanted answer; undefined: it cannot, and a new one must be made.
   */
  async lookUp<T>(
    key: string,
    directives: CacheDirectives,
    client: AbortSignal,
    toReplay: (recording: Recording) => T | undefined,
  ): Promise<{ found: T } | { inFlight: InFlightEntry | undefined }> {
    let failedFlights = 0;
    while (directives.mayRead) {
      const recording = await this.#store.find(key);
      const isFresh = recording && this.#isFreshEnough(recording, directives);
      const cached = isFresh ? toReplay(recording) : undefined;
      if (cached !== undefined) return { found: cached };
      const flight = failedFlights < failedFlightsMax ? this.#flights.get(key) : undefined;
      if (!flight || flight.followers >= cacheFollowersMax) break;
      flight.followers += 1;
      const result = await unlessAborted(flight.result, client);
      if (client.aborted) {
        flight.followers -= 1;
        break;
      }
      if (!result) {
        failedFlights += 1;
        continue;
      }
      // The answer was made after we asked, so it is young enough for any request.
      const replayed = toReplay(result);
      if (replayed !== undefined) return { found: replayed };
      break;
    }
    return { inFlight: directives.mayWrite ? this.#startFlight(key) : undefined };
  }

  #isFreshEnough({ recordedAt }: CachedRecording, { maxAgeSeconds }: CacheDirectives): boolean {
    // A recording dated in the future is from before the clock was set back: its age is a guess.
    const ageMs = Math.abs(this.#now() - recordedAt);
    return maxAgeSeconds === null || ageMs <= maxAgeSeconds * 1000;
  }

  #save(key: string, recording: Recording): void {
    this.#store.save(key, { ...recording, recordedAt: this.#now() }, this.#ttlSeconds);
  }

  #startFlight(key: string): InFlightEntry {
    const { promise, resolve } = Promise.withResolvers<Recording | undefined>();
    const flight: Flight = { result: promise, followers: 0 };
    if (!this.#flights.has(key)) this.#flights.set(key, flight);
    const complete = (recording: Recording | undefined) => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
      resolve(recording);
    };
    return {
      finish: async (recording, charge) => {
        await charge?.saveSettlement();
        if (recording) this.#save(key, recording);
        complete(recording ?? undefined);
      },
      release: async () => complete(undefined),
    };
  }
}

/** What a request's `Cache-Control` asks of the response cache. */
interface CacheDirectives {
  /** False: the answer must be fresh. */
  readonly mayRead: boolean;
  /** False: the answer must not be kept. */
  readonly mayWrite: boolean;
  /** The greatest age of an answer that will do; null: as old as the cache keeps them. */
  readonly maxAgeSeconds: number | null;
}

const noDirectives: CacheDirectives = { mayRead: true, mayWrite: true, maxAgeSeconds: null };

export function readDirectives(header: string | null): CacheDirectives {
  if (header === null) return noDirectives;
  const items = header.toLowerCase().split(',');
  const names = items.map((item) => item.trim());
  if (names.includes('no-store')) return { ...noDirectives, mayRead: false, mayWrite: false };
  if (names.includes('no-cache')) return { ...noDirectives, mayRead: false };
  const age = names.map((name) => /^max-age="?(\d{1,9})"?$/.exec(name)?.[1]).find(Boolean);
  return age === undefined ? noDirectives : { ...noDirectives, maxAgeSeconds: Number(age) };
}
