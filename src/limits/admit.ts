import type { Caller } from '../core/caller.ts';
import { GatewayError } from '../core/errors.ts';
import type { ConcurrencyLimiter } from './concurrency.ts';
import type { RateLimiter } from './rate.ts';

export interface LimitDefaults {
  readonly requestsPerMinute: number;
  readonly concurrentRequests: number;
}

/** May this caller send one more request, now? Every request of a key passes here. */
export class Admission {
  readonly #rate: RateLimiter;
  readonly #concurrency: ConcurrencyLimiter;
  readonly #defaults: LimitDefaults;
  readonly #now: () => number;

  constructor(
    rate: RateLimiter,
    concurrency: ConcurrencyLimiter,
    defaults: LimitDefaults,
    now: () => number = Date.now,
  ) {
    this.#rate = rate;
    this.#concurrency = concurrency;
    this.#defaults = defaults;
    this.#now = now;
  }

  /** Counts the request, writes its rate headers, and throws 429 when the quota is used up. */
  countRequest(caller: Caller, headers: Record<string, string>): void {
    const limit = caller.requestsPerMinute ?? this.#defaults.requestsPerMinute;
    const verdict = this.#rate.take(caller.keyId, limit, this.#now());
    headers['x-ratelimit-limit'] = String(verdict.limit);
    headers['x-ratelimit-remaining'] = String(verdict.remaining);
    headers['x-ratelimit-reset'] = String(verdict.resetAt);
    if (verdict.allowed) return;
    const seconds = Math.ceil(verdict.retryAfterSeconds);
    const message = `This API key may send ${limit} requests a minute; try again in ${seconds} s.`;
    throw new GatewayError('rate_limit_exceeded', message, {
      retryAfterSeconds: verdict.retryAfterSeconds,
    });
  }

  /** Takes a place among the tenant's running requests; the answer gives it back, once. */
  enter(caller: Caller): () => void {
    const limit = caller.concurrentRequests ?? this.#defaults.concurrentRequests;
    if (!this.#concurrency.enter(caller.tenantId, limit)) {
      const message = `This account already has ${limit} requests running, which is its limit.`;
      throw new GatewayError('rate_limit_exceeded', message, { retryAfterSeconds: 1 });
    }
    let left = false;
    return () => {
      if (left) return;
      left = true;
      this.#concurrency.leave(caller.tenantId);
    };
  }
}
