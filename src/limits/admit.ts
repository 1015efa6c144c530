import type { Caller } from '../core/caller.ts';
import { counted } from '../core/counted.ts';
import { GatewayError } from '../core/errors.ts';
import type { ConcurrencyLimiter } from './concurrency.ts';
import { type RateLimiter, type RateVerdict, verdictOf } from './rate.ts';
import type { RateLimits, SharedCounts } from './shared-counts.ts';
import type { SharedPlaces } from './shared-places.ts';

interface LimitDefaults {
  readonly requestsPerMinute: number;
  /** `null` or left out: as many as the credits allow. */
  readonly tokensPerMinute?: number | null;
  readonly concurrentRequests: number;
}

/** What all processes count together, where they have a shared memory. */
export interface Together {
  readonly counts: SharedCounts;
  readonly places: SharedPlaces;
}

export interface AdmissionParts {
  readonly rate: RateLimiter;
  readonly concurrency: ConcurrencyLimiter;
  readonly defaults: LimitDefaults;
  /** Left out where this process counts alone. */
  readonly together?: Together | undefined;
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
  readonly #together: Together | undefined;
  /** How far the clock that all processes share is ahead of this one's, as last told. */
  #aheadMs = 0;

  constructor({ rate, concurrency, defaults, together, now = Date.now }: AdmissionParts) {
    this.#rate = rate;
    this.#concurrency = concurrency;
    this.#concurrentRequests = defaults.concurrentRequests;
    const { requestsPerMinute: requests, tokensPerMinute: tokens = null } = defaults;
    this.#rateLimits = { requests, tokens };
    this.#now = now;
    this.#together = together;
  }

  /** Counts the request, writes its rate headers, and throws 429 when the quota is used up. */
  countRequest(caller: Caller, headers: Record<string, string>): void | Promise<void> {
    const limits = this.#limitsOf(caller);
    const counts = this.#together?.counts;
    if (counts?.isUp) return this.#countTogether(counts, caller, limits, headers);
    enforce(this.#rate.take(caller.keyId, limits, this.#sharedNow()), limits, headers);
  }

  /** Writes the rate headers of an answer that uses no quota, as far as this process knows it. */
  tellRate(caller: Caller, headers: Record<string, string>): void {
    const limits = this.#limitsOf(caller);
    writeHeaders(this.#rate.look(caller.keyId, limits, this.#sharedNow()), headers);
  }

  /**
   * Tokens are known when a request has ended; later requests may have to wait for a new minute.
   */
  countTokens(caller: Caller, tokens: number): void | Promise<void> {
    if (this.#rateLimits.tokens === null || tokens === 0) return;
    this.#rate.addTokens(caller.keyId, tokens, this.#sharedNow());
    const counts = this.#together?.counts;
    if (counts?.isUp) return this.#countTokensTogether(counts, caller, tokens);
  }

  /**
   * Takes a place among the tenant's running requests; the returned function gives it back, once.
   */
  enter(caller: Caller): (() => void) | Promise<() => void> {
    const { tenantId } = caller;
    const limit = caller.concurrentRequests ?? this.#concurrentRequests;
    if (!this.#concurrency.enter(tenantId, limit)) throw allTaken(limit);
    const concurrency = this.#concurrency;
    let isInside = true;
    const leave = (): boolean => {
      const wasInside = isInside;
      isInside = false;
      if (wasInside) concurrency.leave(tenantId);
      return wasInside;
    };
    const places = this.#together?.places;
    return places ? enterTogether(places, tenantId, limit, leave) : leave;
  }

  /** By the shared clock: counts that we put into another minute would mislead other processes. */
  #sharedNow(): number {
    return this.#now() + this.#aheadMs;
  }

  #limitsOf({ requestsPerMinute: own }: Caller): RateLimits {
    return own === null ? this.#rateLimits : { requests: own, tokens: this.#rateLimits.tokens };
  }

  async #countTogether(
    counts: SharedCounts,
    { tenantId, keyId }: Caller,
    limits: RateLimits,
    headers: Record<string, string>,
  ): Promise<void> {
    const taken = await counts.take(tenantId, keyId, limits, this.#rate.known(keyId));
    if (!taken) return enforce(this.#rate.take(keyId, limits, this.#sharedNow()), limits, headers);
    this.#aheadMs = taken.now - this.#now();
    this.#rate.learn(keyId, taken);
    enforce(verdictOf(taken, taken.allowed, limits, taken.now), limits, headers);
  }

  async #countTokensTogether(
    counts: SharedCounts,
    { tenantId, keyId }: Caller,
    tokens: number,
  ): Promise<void> {
    const counted = await counts.addTokens(tenantId, keyId, tokens);
    if (counted) this.#rate.learn(keyId, counted);
  }
}

async function enterTogether(
  places: SharedPlaces,
  tenantId: string,
  limit: number,
  leaveHere: () => boolean,
): Promise<() => void> {
  const place = await places.enter(tenantId, limit);
  if (place === undefined) {
    leaveHere();
    throw allTaken(limit);
  }
  return () => {
    if (leaveHere()) places.leave(tenantId, place);
  };
}

function writeHeaders(verdict: RateVerdict, headers: Record<string, string>): void {
  headers['x-ratelimit-limit'] = String(verdict.limit);
  headers['x-ratelimit-remaining'] = String(verdict.remaining);
  headers['x-ratelimit-reset'] = String(verdict.resetAt);
}

function enforce(verdict: RateVerdict, limits: RateLimits, headers: Record<string, string>): void {
  writeHeaders(verdict, headers);
  if (verdict.allowed) return;
  const { retryAfterSeconds } = verdict;
  const quota =
    verdict.spent === 'tokens' && limits.tokens !== null
      ? `use ${counted(limits.tokens, 'token')} a minute`
      : `send ${counted(limits.requests, 'request')} a minute`;
  const message = `This API key may ${quota}; try again in ${Math.ceil(retryAfterSeconds)} s.`;
  throw new GatewayError('rate_limit_exceeded', message, { retryAfterSeconds });
}

function allTaken(limit: number): GatewayError {
  const running = counted(limit, 'request');
  const message = `This account already has ${running} running, which is its limit.`;
  return new GatewayError('rate_limit_exceeded', message, { retryAfterSeconds: 1 });
}
