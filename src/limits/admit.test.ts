import { describe, expect, test } from 'bun:test';
import type { Caller } from '../core/caller.ts';
import { GatewayError } from '../core/errors.ts';
import { Admission } from './admit.ts';
import { ConcurrencyLimiter } from './concurrency.ts';
import { RateLimiter } from './rate.ts';

const noon = Date.UTC(2026, 10, 15, 12);

function caller(change: Partial<Caller> = {}): Caller {
  return {
    tenantId: 'acme',
    keyId: 'key_1',
    kind: 'routing',
    scopes: null,
    models: null,
    requestsPerMinute: null,
    concurrentRequests: null,
    cacheMode: null,
    limitCredits: null,
    limitReset: null,
    expiresAt: null,
    ...change,
  };
}

function newAdmission(now = noon): Admission {
  const defaults = { requestsPerMinute: 2, concurrentRequests: 1 };
  return new Admission(new RateLimiter(), new ConcurrencyLimiter(), defaults, () => now);
}

function refusal(work: () => unknown): GatewayError {
  try {
    work();
  } catch (thrown) {
    if (thrown instanceof GatewayError) return thrown;
  }
  throw new Error('It was not refused.');
}

describe('requests a minute', () => {
  test('are counted in the headers of every answer, the refused one included', () => {
    const admission = newAdmission(noon + 15_000);
    const remaining: (string | undefined)[] = [];
    for (let i = 0; i < 2; i++) {
      const headers: Record<string, string> = {};
      admission.countRequest(caller(), headers);
      remaining.push(headers['x-ratelimit-remaining']);
    }
    expect(remaining).toEqual(['1', '0']);

    const headers: Record<string, string> = {};
    const error = refusal(() => admission.countRequest(caller(), headers));
    expect(headers).toEqual({
      'x-ratelimit-limit': '2',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': String((noon + 60_000) / 1000),
    });
    expect(error).toMatchObject({ status: 429, symbol: 'rate_limit_exceeded' });
    expect(error.retryAfterSeconds).toBe(45);
    expect(error.message).toBe('This API key may send 2 requests a minute; try again in 45 s.');
  });

  test('follow the key’s own limit', () => {
    const admission = newAdmission();
    const own = caller({ requestsPerMinute: 1 });
    admission.countRequest(own, {});
    expect(refusal(() => admission.countRequest(own, {})).message).toContain('1 requests a minute');
  });
});

describe('running requests', () => {
  test('take a place until they leave, once', () => {
    const admission = newAdmission();
    const leave = admission.enter(caller());
    const error = refusal(() => admission.enter(caller({ keyId: 'key_2' })));
    expect(error).toMatchObject({ status: 429, retryAfterSeconds: 1 });
    leave();
    leave();
    admission.enter(caller());
    // The second call of `leave` did not free the place of somebody else.
    expect(refusal(() => admission.enter(caller())).status).toBe(429);
  });

  test('follow the tenant’s own limit', () => {
    const admission = newAdmission();
    const roomy = caller({ concurrentRequests: 2 });
    admission.enter(roomy);
    admission.enter(roomy);
    expect(refusal(() => admission.enter(roomy)).message).toContain('2 requests running');
  });
});
