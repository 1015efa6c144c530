import { cacheFollowersMax } from '../core/bounds.ts';
import { unlessAborted } from '../core/deadlines.ts';
import type { InFlightEntry, Recording } from '../core/recording.ts';
import type { CachedRecording, CacheStore } from './cache-store.ts';

interface Flight {
  readonly result: Promise<Recording | undefined>;
  followers: number;
}

/** A request stops waiting after this many failed ones, because each can take a full timeout. */
const failedFlightsMax = 2;

/**
 * Caches answers and coalesces identical requests: the first one is sent, and the others wait for
 * its answer. If it fails, the next one is sent. If that fails too, all requests that have waited
 * for both are sent.
 */
export class ResponseCache {
  readonly #store: CacheStore;
  readonly #ttlSeconds: number;
  readonly #now: () => number;
  readonly #flights = new Map<string, Flight>();

  /**
   * `now` is the same clock in all processes that share the store, because they compare the ages of
   * each other's answers.
   */
  constructor(store: CacheStore, ttlSeconds: number, now: () => number) {
    this.#store = store;
    this.#ttlSeconds = ttlSeconds;
    this.#now = now;
  }

  /**
   * Returns a cached answer, or an entry for this request's own answer. The entry is undefined if
   * the answer must not be stored. `toReplay` returns undefined if the request can't use a
   * recording.
   */
  async lookUp<T>(
    key: string,
    tenantId: string,
    directives: CacheDirectives,
    clientSignal: AbortSignal,
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
      const result = await unlessAborted(flight.result, clientSignal);
      if (clientSignal.aborted) {
        flight.followers -= 1;
        break;
      }
      if (!result) {
        failedFlights += 1;
        continue;
      }
      // The answer is newer than this request, so it satisfies any max-age.
      const replayed = toReplay(result);
      if (replayed !== undefined) return { found: replayed };
      break;
    }
    return { inFlight: directives.mayWrite ? this.#startFlight(key, tenantId) : undefined };
  }

  #isFreshEnough({ recordedAt }: CachedRecording, { maxAgeSeconds }: CacheDirectives): boolean {
    // A recording with a time in the future was made before the clock was set back, so its age is
    // unknown.
    const ageMs = Math.abs(this.#now() - recordedAt);
    return maxAgeSeconds === null || ageMs <= maxAgeSeconds * 1000;
  }

  #save(key: string, recording: Recording, tenantId: string): void {
    const recorded = { ...recording, recordedAt: this.#now() };
    this.#store.save(key, recorded, this.#ttlSeconds, tenantId);
  }

  #startFlight(key: string, tenantId: string): InFlightEntry {
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
        if (recording) this.#save(key, recording, tenantId);
        complete(recording ?? undefined);
      },
      release: async () => complete(undefined),
    };
  }
}

/** The parsed `Cache-Control` header of a request. */
interface CacheDirectives {
  /** False if the answer must be new. */
  readonly mayRead: boolean;
  /** False if the answer must not be stored. */
  readonly mayWrite: boolean;
  /** The maximum age of a cached answer. Null means the cache's lifetime. */
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
