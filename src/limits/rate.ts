import { rateWindowsBackMax } from '../core/bounds.ts';
import type { RateLimits, WindowCount } from './shared-counts.ts';

const windowMs = 60_000;

export interface RateDecision {
  readonly allowed: boolean;
  /** The exhausted quota, or null if the request was allowed. */
  readonly exhausted: 'requests' | 'tokens' | null;
  readonly limit: number;
  readonly remaining: number;
  /** Unix seconds at which the window ends. */
  readonly resetAt: number;
  readonly retryAfterSeconds: number;
}

/**
 * Counts requests and tokens per minute in this process, in fixed windows that start with the
 * minute.
 */
export class RateLimiter {
  readonly #counts = new Map<string, KeyUsage>();
  #window = -1;

  /** Counts one request if the window's quota isn't exhausted. */
  take(keyId: string, limits: RateLimits, now: number): RateDecision {
    this.#moveTo(Math.floor(now / windowMs));
    const used = this.#usedBy(keyId);
    const allowed = exhaustedQuota(used, limits) === null;
    if (allowed) used.requests += 1;
    return rateDecision(used, allowed, limits, now);
  }

  /** Returns the state of the window without counting a request. */
  peek(keyId: string, limits: RateLimits, now: number): RateDecision {
    this.#moveTo(Math.floor(now / windowMs));
    return rateDecision(this.known(keyId), true, limits, now);
  }

  /** Adds tokens to the minute in which their request ended. */
  addTokens(keyId: string, tokens: number, now: number): void {
    this.#moveTo(Math.floor(now / windowMs));
    this.#usedBy(keyId).tokens += tokens;
  }

  /**
   * Merges the count of all processes, to continue from it if the shared counters become
   * unreachable.
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
    // A clock that is set back must not open a new window, so the later one stays.
    if (window <= this.#window) return;
    this.#counts.clear();
    this.#window = window;
  }

  /**
   * Moves the counts to the current minute after the clock was set back, so that callers don't wait
   * until the clock catches up.
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

/** A key's counts in the current window. Cleared when the window ends. */
interface KeyUsage extends WindowCount {
  window: number;
  requests: number;
  tokens: number;
}

/** Builds the decision. `counted` includes the request itself if it was allowed. */
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
