/** Requests per minute, in fixed windows that start with the minute. */

const windowMs = 60_000;

export interface RateVerdict {
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  /** Unix seconds at which the window ends. */
  readonly resetAt: number;
  readonly retryAfterSeconds: number;
}

/** Counts in this process's memory: exact for one process. */
export class RateLimiter {
  readonly #counts = new Map<string, number>();
  #window = -1;

  /** Takes one request out of the window if there is one left. */
  take(keyId: string, limit: number, now: number): RateVerdict {
    const window = Math.floor(now / windowMs);
    if (window !== this.#window) {
      // A clock that steps back must not open a fresh window: the later one stays in force.
      if (window > this.#window) this.#counts.clear();
      this.#window = Math.max(window, this.#window);
    }
    const used = this.#counts.get(keyId) ?? 0;
    const allowed = used < limit;
    if (allowed) this.#counts.set(keyId, used + 1);
    const endsAt = (this.#window + 1) * windowMs;
    return {
      allowed,
      limit,
      remaining: Math.max(0, limit - used - (allowed ? 1 : 0)),
      resetAt: endsAt / 1000,
      retryAfterSeconds: Math.max(0.001, (endsAt - now) / 1000),
    };
  }
}
