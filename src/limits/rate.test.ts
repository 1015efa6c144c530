import { describe, expect, test } from 'bun:test';
import { fc } from '../../tests/support/random.ts';
import { RateLimiter } from './rate.ts';

/** The start of a minute. */
const noon = Date.UTC(2026, 10, 15, 12);
const requests = (count: number, tenantRequests: number | null = null) => {
  return { requests: count, tokens: null, tenantRequests };
};
const a = { tenantId: 'acme', keyId: 'a' };
const b = { tenantId: 'acme', keyId: 'b' };

describe('RateLimiter', () => {
  test('allows exactly the limit and reports the remaining quota', () => {
    const limiter = new RateLimiter();
    const decisions = Array.from({ length: 4 }, () => limiter.take(a, requests(3), noon + 10_000));
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, true, false]);
    expect(decisions.map(({ remaining }) => remaining)).toEqual([2, 1, 0, 0]);
    expect(decisions[3]).toMatchObject({
      limit: 3,
      resetAt: (noon + 60_000) / 1000,
      retryAfterSeconds: 50,
    });
  });

  test('resets at the end of the minute, not a minute after the first request', () => {
    const limiter = new RateLimiter();
    limiter.take(a, requests(1), noon + 59_999);
    expect(limiter.take(a, requests(1), noon + 59_999)).toMatchObject({
      allowed: false,
      retryAfterSeconds: 0.001,
    });
    expect(limiter.take(a, requests(1), noon + 60_000).allowed).toBe(true);
  });

  test('counts each key separately', () => {
    const limiter = new RateLimiter();
    limiter.take(a, requests(1), noon);
    expect(limiter.take(b, requests(1), noon).allowed).toBe(true);
    expect(limiter.take(a, requests(1), noon).allowed).toBe(false);
  });

  test('does not count rejected requests', () => {
    const limiter = new RateLimiter();
    for (let i = 0; i < 5; i++) limiter.take(a, requests(2), noon);
    expect(limiter.take(a, requests(3), noon).allowed).toBe(true);
  });

  test('reports 0 remaining if the limit was lowered below the used count', () => {
    const limiter = new RateLimiter();
    for (let i = 0; i < 5; i++) limiter.take(a, requests(10), noon);
    expect(limiter.take(a, requests(2), noon)).toMatchObject({ allowed: false, remaining: 0 });
  });
});

describe('RateLimiter with a clock that is set back', () => {
  test('keeps the counts when the clock moves back an hour, and resets a minute later', () => {
    const limiter = new RateLimiter();
    const before = noon - 3_600_000;
    limiter.take(a, requests(2), noon);
    expect(limiter.take(a, requests(2), before)).toMatchObject({ allowed: true, remaining: 0 });
    const rejected = limiter.take(a, requests(2), before + 59_000);
    expect(rejected).toMatchObject({ allowed: false, retryAfterSeconds: 1 });
    expect(rejected.resetAt).toBe((before + 60_000) / 1000);
    expect(limiter.take(a, requests(2), before + 60_000).remaining).toBe(1);
  });

  test('opens no new window when the clock moves back less than 5 minutes', () => {
    const limiter = new RateLimiter();
    limiter.take(a, requests(1), noon);
    const back = limiter.take(a, requests(1), noon - 90_000);
    expect(back.allowed).toBe(false);
    expect(back.resetAt).toBe((noon + 60_000) / 1000);
    expect(back.retryAfterSeconds).toBe(150);
    expect(limiter.take(a, requests(1), noon).allowed).toBe(false);
    expect(limiter.take(a, requests(1), noon + 60_000).allowed).toBe(true);
  });

  const jumps = fc.array(fc.integer({ min: -200_000, max: 200_000 }), { maxLength: 200 });
  const limitOf = fc.integer({ min: 1, max: 5 });

  test('never allows more than the limit per minute if the clock jumps by minutes', () => {
    fc.assert(
      fc.property(jumps, limitOf, (steps, limit) => {
        const limiter = new RateLimiter();
        const allowedIn = new Map<number, number>();
        let [now, latest] = [noon, noon];
        for (const step of steps) {
          now = Math.max(now + step, latest - 5 * 60_000);
          latest = Math.max(now, latest);
          const { allowed, resetAt } = limiter.take(a, requests(limit), now);
          if (allowed) allowedIn.set(resetAt, (allowedIn.get(resetAt) ?? 0) + 1);
          expect(resetAt * 1000).toBeGreaterThan(now);
        }
        for (const count of allowedIn.values()) expect(count).toBeLessThanOrEqual(limit);
      }),
    );
  });

  test('never allows more than the limit before the reported reset, whatever the jump', () => {
    fc.assert(
      fc.property(jumps, limitOf, (steps, limit) => {
        const limiter = new RateLimiter();
        let [now, endsAt, count] = [noon, 0, 0];
        for (const step of steps) {
          now += step * 10;
          if (now >= endsAt) count = 0;
          const { allowed, resetAt } = limiter.take(a, requests(limit), now);
          if (allowed) count += 1;
          expect(count).toBeLessThanOrEqual(limit);
          endsAt = resetAt * 1000;
          expect(endsAt).toBeGreaterThan(now);
        }
      }),
    );
  });
});

describe('RateLimiter with a token limit', () => {
  test('rejects requests after the last token until the minute ends', () => {
    const limiter = new RateLimiter();
    const limits = { requests: 10, tokens: 100, tenantRequests: null };
    limiter.take(a, limits, noon);
    limiter.addTokens(a, 99, noon + 1_000);
    expect(limiter.take(a, limits, noon + 1_000)).toMatchObject({
      allowed: true,
      exhausted: null,
    });
    limiter.addTokens(a, 1, noon + 2_000);
    expect(limiter.take(a, limits, noon + 2_000)).toMatchObject({
      allowed: false,
      exhausted: 'tokens',
      limit: 10,
      remaining: 8,
      retryAfterSeconds: 58,
    });
    expect(limiter.take(b, limits, noon + 2_000).allowed).toBe(true);
    expect(limiter.take(a, limits, noon + 60_000).allowed).toBe(true);
    // Tokens count in the minute in which they are reported, even before any request.
    limiter.addTokens(a, 100, noon + 120_000);
    expect(limiter.take(a, limits, noon + 120_001)).toMatchObject({ exhausted: 'tokens' });
  });
});

describe("RateLimiter with a tenant's limit", () => {
  test('counts the requests of all keys of the tenant, and of no other tenant', () => {
    const limiter = new RateLimiter();
    const decisions = [a, b, a, b].map((key) => limiter.take(key, requests(2, 3), noon));
    expect(decisions.map(({ exhausted }) => exhausted)).toEqual([
      null,
      null,
      null,
      'tenantRequests',
    ]);
    expect(decisions.map(({ limit, remaining }) => [limit, remaining])).toEqual([
      [2, 1],
      [3, 1],
      [3, 0],
      [3, 0],
    ]);
    const other = { tenantId: 'other', keyId: 'c' };
    expect(limiter.take(other, requests(2, 3), noon).remaining).toBe(1);
    expect(limiter.take(b, requests(2, 3), noon + 60_000).remaining).toBe(1);
  });

  test('counts a request that the key or the tenant rejects against neither', () => {
    const limiter = new RateLimiter();
    for (let i = 0; i < 5; i++) limiter.take(a, requests(1, 3), noon);
    expect(limiter.known(a)).toMatchObject({ requests: 1, tenantRequests: 1 });
    for (let i = 0; i < 5; i++) limiter.take(b, requests(9, 3), noon);
    expect(limiter.known(b)).toMatchObject({ requests: 2, tenantRequests: 3 });
  });
});

describe('RateLimiter.mergeShared', () => {
  const window = noon / 60_000;

  test('continues from the shared count and never lowers a count', () => {
    const limiter = new RateLimiter();
    limiter.peek(a, requests(9), noon + 1);
    expect(limiter.known(a)).toEqual({ window, requests: 0, tokens: 0, tenantRequests: 0 });
    limiter.mergeShared(a, { window, requests: 7, tokens: 20, tenantRequests: 8 });
    limiter.mergeShared(a, { window, requests: 5, tokens: 30, tenantRequests: 0 });
    limiter.mergeShared(a, { window, requests: 6, tokens: 10, tenantRequests: 7 });
    expect(limiter.known(a)).toEqual({ window, requests: 7, tokens: 30, tenantRequests: 8 });
    expect(limiter.known(b)).toMatchObject({ requests: 0, tenantRequests: 8 });
    expect(limiter.take(a, requests(9), noon).remaining).toBe(1);
    expect(limiter.take(a, requests(9), noon).remaining).toBe(0);
    expect(limiter.take(a, requests(9), noon).allowed).toBe(false);
  });

  test('starts a later minute and ignores an earlier one', () => {
    const limiter = new RateLimiter();
    limiter.take(a, requests(5), noon);
    limiter.mergeShared(a, { window: window + 1, requests: 1, tokens: 0, tenantRequests: 0 });
    expect(limiter.known(a)).toEqual({
      window: window + 1,
      requests: 1,
      tokens: 0,
      tenantRequests: 0,
    });
    limiter.mergeShared(a, { window, requests: 5, tokens: 0, tenantRequests: 0 });
    expect(limiter.known(a)).toEqual({
      window: window + 1,
      requests: 1,
      tokens: 0,
      tenantRequests: 0,
    });
  });
});
