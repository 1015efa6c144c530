import { rateWindowsBackMax } from '../core/bounds.ts';
import type { RateLimits, WindowCount } from './shared-counts.ts';

/** Requests and tokens per minute, in fixed windows that start with the minute. */

const windowMs = 60_000;

export interface RateDecision {
  readonly allowed: boolean;
  /** The quota that was used up; null when the request was allowed. */
  readonly exhausted: 'requests' | 'tokens' | null;
  readonly limit: number;
  readonly remaining: number;
  /** Unix seconds at which the window ends. */
  readonly resetAt: number;
  readonly retryAfterSeconds: number;
}

/** Counts in this process's memory: exact for one process. */
export class RateLimiter {
  readonly #counts = new Map<string, KeyUsage>();
  #window = -1;

  /** Takes one request out of the window's quota if there is one left. */
  take(keyId: string, limits: RateLimits, now: number): RateDecision {
    this.#moveTo(Math.floor(now / windowMs));
    const used = this.#usedBy(keyId);
    const allowed = exhaustedQuota(used, limits) === null;
    if (allowed) used.requests += 1;
    return rateDecision(used, allowed, limits, now);
  }

  /** The state of the window, with nothing taken out of it. */
  peek(keyId: string, limits: RateLimits, now: number): RateDecision {
    this.#moveTo(Math.floor(now / windowMs));
    return rateDecision(this.known(keyId), true, limits, now);
  }

  /** Tokens count in the minute in which they are known: at the end of their request. */
  addTokens(keyId: string, tokens: number, now: number): void {
    this.#moveTo(Math.floor(now / windowMs));
    this.#usedBy(keyId).tokens += tokens;
  }

  /**
   * Takes over what all processes have counted, to go on from there if this one has to count alone.
   */
  mergeShared(keyId: string, { window, requests, tokens }: WindowCount): void {
    this.#moveTo(window);
    if (window < this.#window) return;
    const used = this.#usedBy(keyId);
    used.requests = Math.max(used.requests, requests);
    used.tokens = Math.max(used.tokens, tokens);
  }

  known(keyId: string): WindowCount {
    const { requests = 0, tokens = 0 } = this.#counts.get(keyId) ?? {};
    return { window: this.#window, requests, tokens };
  }

  #moveTo(window: number): void {
    if (window < this.#window - rateWindowsBackMax) this.#rewindTo(window);
    // A clock that steps back must not open a fresh window: the later one stays in force.
    if (window <= this.#window) return;
    this.#counts.clear();
    this.#window = window;
  }

  /**
   * For a clock that was set back: the counts stay, now as those of this minute, so that nobody
   * waits until the clock catches up.
   */
  #rewindTo(window: number): void {
    this.#window = window;
    for (const used of this.#counts.values()) used.window = window;
  }

  #usedBy(keyId: string): KeyUsage {
    let used = this.#counts.get(keyId);
    if (!used) {
      used = { window: this.#window, requests: 0, tokens: 0 };
      this.#counts.set(keyId, used);
    }
    return used;
  }
}

/** Counts of the window in force; all are forgotten when it ends. */
interface KeyUsage extends WindowCount {
  window: number;
  requests: number;
  tokens: number;
}

/** `counted` includes the request itself when it was allowed. */
export function rateDecision(
  counted: WindowCount,
  allowed: boolean,
  limits: RateLimits,
  now: number,
): RateDecision {
  const endsAt = (counted.window + 1) * windowMs;
  return {
    allowed,
    exhausted: allowed ? null : exhaustedQuota(counted, limits),
    limit: limits.requests,
    remaining: Math.max(0, limits.requests - counted.requests),
    resetAt: endsAt / 1000,
    retryAfterSeconds: Math.max(0.001, (endsAt - now) / 1000),
  };
}

function exhaustedQuota(
  { requests, tokens }: WindowCount,
  limits: RateLimits,
): RateDecision['exhausted'] {
  if (requests >= limits.requests) return 'requests';
  return limits.tokens !== null && tokens >= limits.tokens ? 'tokens' : null;
}
