import { describe, expect, test } from 'bun:test';
import { completionId, newRequestId, newTenantId, randomText } from './ids.ts';

describe('random text', () => {
  test('has exactly the wanted length, of small letters and digits', () => {
    for (const length of [0, 1, 16, 48, 500]) {
      const text = randomText(length);
      expect(text).toHaveLength(length);
      expect(text).toMatch(/^[0-9a-z]*$/);
    }
  });

  test('uses each of its 36 symbols about as often as any other', () => {
    const counts = new Map<string, number>();
    const length = 360_000;
    for (const symbol of randomText(length)) counts.set(symbol, (counts.get(symbol) ?? 0) + 1);
    expect(counts.size).toBe(36);
    // Seven standard deviations of an even draw; taking every byte modulo 36 misses by twelve.
    const allowed = 7 * Math.sqrt(length / 36);
    for (const count of counts.values()) {
      expect(Math.abs(count - length / 36)).toBeLessThan(allowed);
    }
  });
});

test('ids do not repeat and have their prefix', () => {
  expect(new Set(Array.from({ length: 1_000 }, newTenantId)).size).toBe(1_000);
  expect(newTenantId()).toMatch(/^ten_[0-9a-z]{16}$/);
});

test('a completion id leads back to its request', () => {
  const requestId = newRequestId();
  expect(completionId(requestId)).toMatch(/^chatcmpl-[0-9a-f]{32}$/);
  expect(completionId(requestId)).toBe(completionId(requestId));
  expect(completionId(requestId)).not.toBe(completionId(newRequestId()));
});
