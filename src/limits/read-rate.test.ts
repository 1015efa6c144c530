import { describe, expect, test } from 'bun:test';
import { ReadRate } from './read-rate.ts';

/** Counts how many of 1,000 requests at one time are admitted. */
function admitted(rate: ReadRate, tenantId: string, now: number): number {
  let count = 0;
  try {
    for (; count < 1_000; count += 1) rate.take(tenantId, now);
  } catch {}
  return count;
}

describe('ReadRate', () => {
  test('admits two seconds of the quota at once, then as many as it allows per second', () => {
    const rate = new ReadRate(6_000);
    expect(admitted(rate, 'acme', 0)).toBe(200);
    expect(admitted(rate, 'acme', 250)).toBe(25);
    expect(admitted(rate, 'acme', 60_000)).toBe(200);
  });

  test('limits each tenant separately', () => {
    const rate = new ReadRate(60);
    expect(admitted(rate, 'acme', 0)).toBe(2);
    expect(admitted(rate, 'other', 0)).toBe(2);
  });

  test('says when to retry', () => {
    const rate = new ReadRate(6);
    rate.take('acme', 0);
    expect(() => rate.take('acme', 1_000)).toThrow(
      expect.objectContaining({
        status: 429,
        retryAfterSeconds: 9,
        message:
          'This account is limited to 6 reads and management requests per minute. ' +
          'Send them more slowly.',
      }),
    );
  });
});
