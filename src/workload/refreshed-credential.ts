import { boundedCall, unlessAborted } from '../core/deadlines.ts';
import { knownCredentials } from '../core/known-credentials.ts';

/** The time for all steps of a refresh. The requests that wait for it have their own timeouts. */
const refreshMsMax = 10_000;
/** Metadata servers replace a credential 5 minutes before it expires. */
const earlyMs = 240_000;
/** A credential must reach the provider in time, and clocks may differ. */
const marginMs = 30_000;
/** A server may return the same credential again, so it isn't called for every request. */
const intervalMsMin = 10_000;
/** The wait after a failed refresh, which doubles with each failure. */
const waitMsFirst = 1_000;
const waitMsMax = 60_000;
/** A rejected credential that is younger is used again, because a new one wouldn't help. */
const rejectableAfterMs = 60_000;

export interface TemporaryCredential {
  /** Epoch milliseconds. */
  readonly expiresAt: number;
  /** Texts that no message may reveal. */
  readonly secrets: readonly string[];
}

/** Thrown if no credential was obtained. The message names the failed step and has no secrets. */
export class WorkloadError extends Error {
  override readonly name = 'WorkloadError';
}

/**
 * A credential that is replaced before it expires. All requests share one refresh, and wait for it
 * only if there is no valid credential. After a failure, no refresh starts for a while.
 */
export class RefreshedCredential<T extends TemporaryCredential> {
  readonly #load: (signal: AbortSignal) => Promise<T>;
  readonly #now: () => number;
  #current: T | undefined;
  #loadedAt = 0;
  #isRejected = false;
  #pending: Promise<T> | undefined;
  #failures = 0;
  #failure: unknown;
  #waitUntil = 0;

  constructor(load: (signal: AbortSignal) => Promise<T>, now: () => number = Date.now) {
    this.#load = load;
    this.#now = now;
  }

  /** The latest credential, valid or expired. */
  get last(): T | undefined {
    return this.#current;
  }

  /** Throws the signal's reason if it aborts first. The refresh then continues for others. */
  async get(signal?: AbortSignal): Promise<T> {
    const now = this.#now();
    const current = this.#current;
    const valid = current && !this.#isRejected && now < current.expiresAt - marginMs;
    if (valid && now < Math.max(current.expiresAt - earlyMs, this.#loadedAt + intervalMsMin)) {
      return current;
    }
    // After the clock was set back, the end of the wait may be hours ahead.
    const waitMs = this.#waitUntil - now;
    if (this.#pending === undefined && waitMs > 0 && waitMs <= waitMsMax) {
      if (valid) return current;
      throw this.#failure;
    }
    const pending = this.#refresh();
    if (valid) return current;
    if (!signal) return pending;
    const loaded = await unlessAborted(pending, signal);
    if (loaded === undefined) throw signal.reason;
    return loaded;
  }

  /** Records that a provider rejected a credential. Returns whether a new one may work. */
  rejected(credential: T | undefined): boolean {
    if (credential !== this.#current) return true;
    const ageMs = this.#now() - this.#loadedAt;
    if (ageMs >= 0 && ageMs < rejectableAfterMs) return false;
    this.#isRejected = true;
    return true;
  }

  #refresh(): Promise<T> {
    if (this.#pending !== undefined) return this.#pending;
    const pending = boundedCall(refreshMsMax, undefined, this.#load)
      .then((loaded) => this.#accept(loaded))
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#pending = undefined;
      });
    // The failure is reported to the requests that wait, and there may be none.
    pending.catch(() => undefined);
    this.#pending = pending;
    return pending;
  }

  #accept(loaded: T): T {
    if (loaded.expiresAt - marginMs <= this.#now()) {
      throw new WorkloadError('The credentials that were returned have expired.');
    }
    this.#current = loaded;
    this.#loadedAt = this.#now();
    this.#isRejected = false;
    this.#failures = 0;
    this.#waitUntil = 0;
    for (const secret of loaded.secrets) knownCredentials.add(secret);
    return loaded;
  }

  #fail(error: unknown): never {
    this.#failure = error;
    this.#waitUntil = this.#now() + Math.min(waitMsMax, waitMsFirst * 2 ** this.#failures);
    this.#failures += 1;
    throw error;
  }
}
