import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { RateLimiter } from './rate.ts';

/** Noon, so on the minute. */
const noon = Date.UTC(2026, 10, 15, 12);

describe('a window', () => {
  test('lets exactly the limit through and says what is left', () => {
    const limiter = new RateLimiter();
    const verdicts = Array.from({ length: 4 }, () => limiter.take('a', 3, noon + 10_000));
    expect(verdicts.map(({ allowed }) => allowed)).toEqual([true, true, true, false]);
    expect(verdicts.map(({ remaining }) => remaining)).toEqual([2, 1, 0, 0]);
    expect(verdicts[3]).toMatchObject({
      limit: 3,
      resetAt: (noon + 60_000) / 1000,
      retryAfterSeconds: 50,
    });
  });

  test('ends with the minute, not a minute after the first request', () => {
    const limiter = new RateLimiter();
    limiter.take('a', 1, noon + 59_999);
    expect(limiter.take('a', 1, noon + 59_999)).toMatchObject({
      allowed: false,
      retryAfterSeconds: 0.001,
    });
    expect(limiter.take('a', 1, noon + 60_000).allowed).toBe(true);
  });

  test('belongs to one key', () => {
    const limiter = new RateLimiter();
    limiter.take('a', 1, noon);
    expect(limiter.take('b', 1, noon).allowed).toBe(true);
    expect(limiter.take('a', 1, noon).allowed).toBe(false);
  });

  test('of a refused request costs nothing', () => {
    const limiter = new RateLimiter();
    for (let i = 0; i < 5; i++) limiter.take('a', 2, noon);
    expect(limiter.take('a', 3, noon).allowed).toBe(true);
  });

  test('whose limit was lowered below what was used has nothing left, not less', () => {
    const limiter = new RateLimiter();
    for (let i = 0; i < 5; i++) limiter.take('a', 10, noon);
    expect(limiter.take('a', 2, noon)).toMatchObject({ allowed: false, remaining: 0 });
  });
});

describe('a clock that steps back', () => {
  test('opens no fresh window and gives nothing back', () => {
    const limiter = new RateLimiter();
    limiter.take('a', 1, noon);
    const back = limiter.take('a', 1, noon - 90_000);
    expect(back.allowed).toBe(false);
    expect(back.resetAt).toBe((noon + 60_000) / 1000);
    expect(back.retryAfterSeconds).toBe(150);
    expect(limiter.take('a', 1, noon).allowed).toBe(false);
    expect(limiter.take('a', 1, noon + 60_000).allowed).toBe(true);
  });

  test('never lets more through in one minute than the limit, however it jumps', () => {
    const jumps = fc.array(fc.integer({ min: -200_000, max: 200_000 }), { maxLength: 200 });
    fc.assert(
      fc.property(jumps, fc.integer({ min: 1, max: 5 }), (steps, limit) => {
        const limiter = new RateLimiter();
        const allowedIn = new Map<number, number>();
        let now = noon;
        for (const step of steps) {
          now += step;
          const { allowed, resetAt } = limiter.take('a', limit, now);
          if (allowed) allowedIn.set(resetAt, (allowedIn.get(resetAt) ?? 0) + 1);
          expect(resetAt * 1000).toBeGreaterThan(now);
        }
        for (const count of allowedIn.values()) expect(count).toBeLessThanOrEqual(limit);
      }),
    );
  });
});
