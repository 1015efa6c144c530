import type { Caller } from '../core/caller.ts';
import { GatewayError } from '../core/errors.ts';
import { pluralize } from '../core/text.ts';
import type { ConcurrencyLimiter, SharedSlots } from './concurrency.ts';
import { type RateDecision, type RateLimiter, rateDecision } from './rate.ts';
import type { RateLimits, SharedCounts } from './shared-counts.ts';

interface LimitDefaults {
  readonly requestsPerMinute: number;
  /** Null or absent means that only the credits limit the tokens. */
  readonly tokensPerMinute?: number | null;
  readonly concurrentRequests: number;
}

/** Counters shared by all processes through Redis. */
export interface SharedLimits {
  readonly counts: SharedCounts;
  readonly slots: SharedSlots;
}

export interface AdmissionDeps {
  readonly rate: RateLimiter;
  readonly concurrency: ConcurrencyLimiter;
  readonly defaults: LimitDefaults;
  /** Absent if this process counts on its own. */
  readonly shared?: SharedLimits | undefined;
  readonly now?: () => number;
}

/**
 * Decides whether a caller can send another request. Applies to model calls, token counts, and
 * new jobs. Returns promises only if counters are shared between processes.
 */
export class Admission {
  readonly #rate: RateLimiter;
  readonly #concurrency: ConcurrencyLimiter;
  /** The default for tenants without a limit of their own. */
  readonly #concurrentRequests: number;
  readonly #rateLimits: RateLimits;
  readonly #now: () => number;
  readonly #sharedLimits: SharedLimits | undefined;
  /** The last known offset of the shared clock from this process's clock. */
  #clockOffsetMs = 0;

  constructor({ rate, concurrency, defaults, shared, now = Date.now }: AdmissionDeps) {
    this.#rate = rate;
    this.#concurrency = concurrency;
    this.#concurrentRequests = defaults.concurrentRequests;
    const { requestsPerMinute: requests, tokensPerMinute: tokens = null } = defaults;
    this.#rateLimits = { requests, tokens, tenantRequests: null };
    this.#now = now;
    this.#sharedLimits = shared;
  }

  /** Counts the request, writes its rate headers, and throws 429 if the quota is exhausted. */
  countRequest(caller: Caller, headers: Record<string, string>): void | Promise<void> {
    const limits = this.#limitsOf(caller);
    const counts = this.#sharedLimits?.counts;
    if (counts?.isUp) return this.#countShared(counts, caller, limits, headers);
    enforce(this.#rate.take(caller, limits, this.#sharedNow()), limits, headers);
  }

  /** Writes rate headers from this process's counts for an answer that uses no quota. */
  writeRateHeaders(caller: Caller, headers: Record<string, string>): void {
    const limits = this.#limitsOf(caller);
    writeHeaders(this.#rate.peek(caller, limits, this.#sharedNow()), headers);
  }

  /**
   * Counts the tokens of a finished request. They can delay later requests until the next minute.
   */
  countTokens(caller: Caller, tokens: number): void | Promise<void> {
    if (this.#rateLimits.tokens === null || tokens === 0) return;
    this.#rate.addTokens(caller, tokens, this.#sharedNow());
    const counts = this.#sharedLimits?.counts;
    if (counts?.isUp) return this.#countTokensShared(counts, caller, tokens);
  }

  /**
   * Acquires one of the tenant's concurrency slots. Returns a function that releases it and can be
   * called repeatedly. Throws 429.
   */
  acquire(caller: Caller): (() => void) | Promise<() => void> {
    const { tenantId } = caller;
    const limit = caller.concurrentRequests ?? this.#concurrentRequests;
    if (!this.#concurrency.acquire(tenantId, limit)) throw tooManyRunning(limit);
    const concurrency = this.#concurrency;
    let isRunning = true;
    const release = (): boolean => {
      const wasRunning = isRunning;
      isRunning = false;
      if (wasRunning) concurrency.release(tenantId);
      return wasRunning;
    };
    const slots = this.#sharedLimits?.slots;
    return slots ? enterShared(slots, tenantId, limit, release) : release;
  }

  /**
   * Returns the time on the shared clock, because counts in the wrong minute would mislead other
   * processes.
   */
  #sharedNow(): number {
    return this.#now() + this.#clockOffsetMs;
  }

  #limitsOf({ requestsPerMinute, tenantRequestsPerMinute }: Caller): RateLimits {
    const { requests, tokens } = this.#rateLimits;
    if (requestsPerMinute === null && tenantRequestsPerMinute === null) return this.#rateLimits;
    return {
      requests: requestsPerMinute ?? requests,
      tokens,
      tenantRequests: tenantRequestsPerMinute,
    };
  }

  async #countShared(
    counts: SharedCounts,
    caller: Caller,
    limits: RateLimits,
    headers: Record<string, string>,
  ): Promise<void> {
    const shared = await counts.take(caller, limits, this.#rate.known(caller));
    if (!shared)
      return enforce(this.#rate.take(caller, limits, this.#sharedNow()), limits, headers);
    this.#clockOffsetMs = shared.now - this.#now();
    this.#rate.mergeShared(caller, shared);
    enforce(rateDecision(shared, shared.allowed, limits, shared.now), limits, headers);
  }

  async #countTokensShared(counts: SharedCounts, caller: Caller, tokens: number): Promise<void> {
    const counted = await counts.addTokens(caller, tokens);
    if (counted) this.#rate.mergeShared(caller, counted);
  }
}

async function enterShared(
  slots: SharedSlots,
  tenantId: string,
  limit: number,
  leaveLocal: () => boolean,
): Promise<() => void> {
  const slot = await slots.enter(tenantId, limit);
  if (slot === undefined) {
    leaveLocal();
    throw tooManyRunning(limit);
  }
  return () => {
    if (leaveLocal()) slots.leave(tenantId, slot);
  };
}

function writeHeaders(decision: RateDecision, headers: Record<string, string>): void {
  headers['x-ratelimit-limit'] = String(decision.limit);
  headers['x-ratelimit-remaining'] = String(decision.remaining);
  headers['x-ratelimit-reset'] = String(decision.resetAt);
}

function enforce(
  decision: RateDecision,
  limits: RateLimits,
  headers: Record<string, string>,
): void {
  writeHeaders(decision, headers);
  const { exhausted, retryAfterSeconds } = decision;
  if (exhausted === null) return;
  const quota = pluralize(limits[exhausted] ?? 0, exhausted === 'tokens' ? 'token' : 'request');
  const limit =
    exhausted === 'tenantRequests'
      ? `This tenant is limited to ${quota} per minute, shared by all its keys.`
      : `This API key is limited to ${quota} per minute.`;
  const message = `${limit} Try again in ${Math.ceil(retryAfterSeconds)} s.`;
  throw new GatewayError('rate_limit_exceeded', message, { retryAfterSeconds });
}

function tooManyRunning(limit: number): GatewayError {
  const running = pluralize(limit, 'request');
  const wait = 'Wait until one ends.';
  const message = `This account already has ${running} running, which is its limit. ${wait}`;
  return new GatewayError('rate_limit_exceeded', message, { retryAfterSeconds: 1 });
}
