import { rateWindowsBackMax } from '../core/bounds.ts';
import type { CountedKey, RateLimits, WindowCount } from './shared-counts.ts';

const windowMs = 60_000;

export interface RateDecision {
  readonly allowed: boolean;
  /** The exhausted quota, or null if the request was allowed. */
  readonly exhausted: keyof RateLimits | null;
  /** The limit of requests that leaves fewer of them: the key's or its tenant's. */
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
  readonly #keys = new Map<string, KeyUsage>();
  /** Requests of all keys of a tenant that has a limit. */
  readonly #tenants = new Map<string, number>();
  #window = -1;

  /** Counts one request if neither the key nor its tenant has exhausted the window's quota. */
  take(key: CountedKey, limits: RateLimits, now: number): RateDecision {
    this.#moveTo(Math.floor(now / windowMs));
    const known = this.known(key);
    if (exhaustedQuota(known, limits)) return rateDecision(known, false, limits, now);
    this.#usedBy(key.keyId).requests += 1;
    if (limits.tenantRequests !== null) this.#tenants.set(key.tenantId, known.tenantRequests + 1);
    return rateDecision(this.known(key), true, limits, now);
  }

  /** Returns the state of the window without counting a request. */
  peek(key: CountedKey, limits: RateLimits, now: number): RateDecision {
    this.#moveTo(Math.floor(now / windowMs));
    return rateDecision(this.known(key), true, limits, now);
  }

  /** Adds tokens to the minute in which their request ended. */
  addTokens({ keyId }: CountedKey, tokens: number, now: number): void {
    this.#moveTo(Math.floor(now / windowMs));
    this.#usedBy(keyId).tokens += tokens;
  }

  /**
   * Merges the count of all processes, to continue from it if the shared counters become
   * unreachable.
   */
  mergeShared({ tenantId, keyId }: CountedKey, shared: WindowCount): void {
    this.#moveTo(shared.window);
    if (shared.window < this.#window) return;
    const used = this.#usedBy(keyId);
    used.requests = Math.max(used.requests, shared.requests);
    used.tokens = Math.max(used.tokens, shared.tokens);
    const ofTenant = this.#tenants.get(tenantId) ?? 0;
    if (shared.tenantRequests > ofTenant) this.#tenants.set(tenantId, shared.tenantRequests);
  }

  known({ tenantId, keyId }: CountedKey): WindowCount {
    const { requests = 0, tokens = 0 } = this.#keys.get(keyId) ?? {};
    const tenantRequests = this.#tenants.get(tenantId) ?? 0;
    return { window: this.#window, requests, tokens, tenantRequests };
  }

  #moveTo(window: number): void {
    // If the clock was set back far, move the counts to the current minute, so that callers don't
    // wait until the clock catches up.
    if (window < this.#window - rateWindowsBackMax) this.#window = window;
    // A clock that is set back must not open a new window, so the later one stays.
    if (window <= this.#window) return;
    this.#keys.clear();
    this.#tenants.clear();
    this.#window = window;
  }

  #usedBy(keyId: string): KeyUsage {
    let used = this.#keys.get(keyId);
    if (!used) {
      used = { requests: 0, tokens: 0 };
      this.#keys.set(keyId, used);
    }
    return used;
  }
}

/** A key's counts in the current window. Cleared when the window ends. */
interface KeyUsage {
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
    ...tighterQuota(counted, limits),
    resetAt: endsAt / 1000,
    retryAfterSeconds: Math.max(0.001, (endsAt - now) / 1000),
  };
}

function tighterQuota(
  { requests, tenantRequests }: WindowCount,
  limits: RateLimits,
): Pick<RateDecision, 'limit' | 'remaining'> {
  const own = { limit: limits.requests, remaining: Math.max(0, limits.requests - requests) };
  const limit = limits.tenantRequests;
  if (limit === null) return own;
  const shared = { limit, remaining: Math.max(0, limit - tenantRequests) };
  return shared.remaining <= own.remaining ? shared : own;
}

/** Names the tenant's quota first, because another key can't get around it. */
function exhaustedQuota(
  { requests, tokens, tenantRequests }: WindowCount,
  limits: RateLimits,
): RateDecision['exhausted'] {
  if (limits.tenantRequests !== null && tenantRequests >= limits.tenantRequests)
    return 'tenantRequests';
  if (requests >= limits.requests) return 'requests';
  return limits.tokens !== null && tokens >= limits.tokens ? 'tokens' : null;
}
