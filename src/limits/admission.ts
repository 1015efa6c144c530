import type { Caller } from '../core/caller.ts';
import { GatewayError } from '../core/errors.ts';
import { pluralize } from '../core/text.ts';
import { type RateDecision, type RateLimiter, rateDecision } from './rate.ts';
import type { RateLimits, SharedCounts } from './shared-counts.ts';
import type { SharedSlots } from './shared-slots.ts';

interface LimitDefaults {
  readonly requestsPerMinute: number;
  /** `null` or left out: as many as the credits allow. */
  readonly tokensPerMinute?: number | null;
  readonly concurrentRequests: number;
}

/** What all processes count together, where they have a shared memory. */
export interface SharedLimits {
  readonly counts: SharedCounts;
  readonly slots: SharedSlots;
}

export interface AdmissionDeps {
  readonly rate: RateLimiter;
  readonly concurrency: ConcurrencyLimiter;
  readonly defaults: LimitDefaults;
  /** Left out where this process counts alone. */
  readonly shared?: SharedLimits | undefined;
  readonly now?: () => number;
}

/**
 * May this caller send one more request, now? Calls of models and new jobs pass here. A process
 * that counts alone answers at once; a promise comes only where processes count together.
 */
export class Admission {
  readonly #rate: RateLimiter;
  readonly #concurrency: ConcurrencyLimiter;
  /** For tenants and keys without a limit of their own. */
  readonly #concurrentRequests: number;
  readonly #rateLimits: RateLimits;
  readonly #now: () => number;
  readonly #sharedLimits: SharedLimits | undefined;
  /** How far the clock that all processes share is ahead of this one's, as last told. */
  #clockOffsetMs = 0;

  constructor({ rate, concurrency, defaults, shared, now = Date.now }: AdmissionDeps) {
    this.#rate = rate;
    this.#concurrency = concurrency;
    this.#concurrentRequests = defaults.concurrentRequests;
    const { requestsPerMinute: requests, tokensPerMinute: tokens = null } = defaults;
    this.#rateLimits = { requests, tokens };
    this.#now = now;
    this.#sharedLimits = shared;
  }

  /** Counts the request, writes its rate headers, and throws 429 when the quota is used up. */
  countRequest(caller: Caller, headers: Record<string, string>): void | Promise<void> {
    const limits = this.#limitsOf(caller);
    const counts = this.#sharedLimits?.counts;
    if (counts?.isUp) return this.#countShared(counts, caller, limits, headers);
    enforce(this.#rate.take(caller.keyId, limits, this.#sharedNow()), limits, headers);
  }

  /** Writes the rate headers of an answer that uses no quota, as far as this process knows it. */
  writeRateHeaders(caller: Caller, headers: Record<string, string>): void {
    const limits = this.#limitsOf(caller);
    writeHeaders(this.#rate.peek(caller.keyId, limits, this.#sharedNow()), headers);
  }

  /**
   * Tokens are known when a request has ended; later requests may have to wait for a new minute.
   */
  countTokens(caller: Caller, tokens: number): void | Promise<void> {
    if (this.#rateLimits.tokens === null || tokens === 0) return;
    this.#rate.addTokens(caller.keyId, tokens, this.#sharedNow());
    const counts = this.#sharedLimits?.counts;
    if (counts?.isUp) return this.#countTokensShared(counts, caller, tokens);
  }

  /**
   * Takes a place among the tenant's running requests; the returned function gives it back, once.
   */
  enter(caller: Caller): (() => void) | Promise<() => void> {
    const { tenantId } = caller;
    const limit = caller.concurrentRequests ?? this.#concurrentRequests;
    if (!this.#concurrency.enter(tenantId, limit)) throw tooManyRunning(limit);
    const concurrency = this.#concurrency;
    let isRunning = true;
    const leave = (): boolean => {
      const wasRunning = isRunning;
      isRunning = false;
      if (wasRunning) concurrency.leave(tenantId);
      return wasRunning;
    };
    const slots = this.#sharedLimits?.slots;
    return slots ? enterShared(slots, tenantId, limit, leave) : leave;
  }

  /** By the shared clock: counts that we put into another minute would mislead other processes. */
  #sharedNow(): number {
    return this.#now() + this.#clockOffsetMs;
  }

  #limitsOf({ requestsPerMinute: own }: Caller): RateLimits {
    return own === null ? this.#rateLimits : { requests: own, tokens: this.#rateLimits.tokens };
  }

  async #countShared(
    counts: SharedCounts,
    { tenantId, keyId }: Caller,
    limits: RateLimits,
    headers: Record<string, string>,
  ): Promise<void> {
    const shared = await counts.take(tenantId, keyId, limits, this.#rate.known(keyId));
    if (!shared) return enforce(this.#rate.take(keyId, limits, this.#sharedNow()), limits, headers);
    this.#clockOffsetMs = shared.now - this.#now();
    this.#rate.mergeShared(keyId, shared);
    enforce(rateDecision(shared, shared.allowed, limits, shared.now), limits, headers);
  }

  async #countTokensShared(
    counts: SharedCounts,
    { tenantId, keyId }: Caller,
    tokens: number,
  ): Promise<void> {
    const counted = await counts.addTokens(tenantId, keyId, tokens);
    if (counted) this.#rate.mergeShared(keyId, counted);
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
  if (decision.allowed) return;
  const { retryAfterSeconds } = decision;
  const quota =
    decision.exhausted === 'tokens' && limits.tokens !== null
      ? `use ${pluralize(limits.tokens, 'token')} a minute`
      : `send ${pluralize(limits.requests, 'request')} a minute`;
  const message = `This API key may ${quota}; try again in ${Math.ceil(retryAfterSeconds)} s.`;
  throw new GatewayError('rate_limit_exceeded', message, { retryAfterSeconds });
}

function tooManyRunning(limit: number): GatewayError {
  const running = pluralize(limit, 'request');
  const message = `This account already has ${running} running, which is its limit.`;
  return new GatewayError('rate_limit_exceeded', message, { retryAfterSeconds: 1 });
}

/** Requests of one tenant running at the same time in this process. */
export class ConcurrencyLimiter {
  readonly #running = new Map<string, number>();

  /** Takes a place; false when all are taken. Each true needs one `leave`. */
  enter(tenantId: string, limit: number): boolean {
    const running = this.#running.get(tenantId) ?? 0;
    if (running >= limit) return false;
    this.#running.set(tenantId, running + 1);
    return true;
  }

  leave(tenantId: string): void {
    const running = this.#running.get(tenantId) ?? 0;
    if (running > 1) this.#running.set(tenantId, running - 1);
    else this.#running.delete(tenantId);
  }
}
