import { describe, expect, test } from 'bun:test';
import {
  completionId,
  newRequestId,
  newTenantId,
  randomText,
  requestIdPattern,
  requestIdTime,
  toRequestId,
} from './ids.ts';

describe('randomText', () => {
  test('returns the requested number of lowercase letters and digits', () => {
    for (const length of [0, 1, 16, 48, 500]) {
      const text = randomText(length);
      expect(text).toHaveLength(length);
      expect(text).toMatch(/^[0-9a-z]*$/);
    }
  });

  test('draws all 36 symbols with equal probability', () => {
    const counts = new Map<string, number>();
    const length = 360_000;
    for (const symbol of randomText(length)) counts.set(symbol, (counts.get(symbol) ?? 0) + 1);
    expect(counts.size).toBe(36);
    // 7 standard deviations of a uniform draw. Taking every byte modulo 36 would be off by 12.
    const allowed = 7 * Math.sqrt(length / 36);
    for (const count of counts.values()) {
      expect(Math.abs(count - length / 36)).toBeLessThan(allowed);
    }
  });
});

test('newTenantId returns unique IDs with the prefix ten_', () => {
  expect(new Set(Array.from({ length: 1_000 }, newTenantId)).size).toBe(1_000);
  expect(newTenantId()).toMatch(/^ten_[0-9a-z]{16}$/);
});

describe('newRequestId', () => {
  test('returns unique version 4 UUIDs', () => {
    const ids = Array.from({ length: 1_000 }, () => newRequestId());
    expect(new Set(ids.map((id) => id.slice(9))).size).toBe(1_000);
    for (const id of ids) {
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    }
  });

  test('starts with the current second, so that IDs sort by time', () => {
    expect(newRequestId(Date.UTC(2026, 0, 1))).toStartWith('6955b900-');
    expect(newRequestId(1_999)).toStartWith('00000001-');
    expect(newRequestId(Date.UTC(2106, 1, 7, 6, 28, 15))).toStartWith('ffffffff-');
  });

  test.each([Date.UTC(2106, 1, 7, 6, 28, 16), Date.UTC(2155, 11, 31), -1])(
    'returns a valid UUID when the clock is at %d',
    (now) => expect(newRequestId(now)).toMatch(requestIdPattern),
  );

  test('encodes the time for requestIdTime, which returns NaN for other text', () => {
    expect(requestIdTime(newRequestId(Date.UTC(2026, 0, 1, 0, 0, 7) + 999))).toBe(
      1_767_225_607_000,
    );
    expect(requestIdTime('6955b90')).toBeNaN();
    expect(requestIdTime('job_6955b900-')).toBeNaN();
  });
});

test('toRequestId converts a completion ID back and returns other IDs unchanged', () => {
  const requestId = newRequestId();
  expect(completionId(requestId)).toMatch(/^chatcmpl-[0-9a-f]{32}$/);
  expect(completionId(requestId)).toBe(completionId(requestId));
  expect(completionId(requestId)).not.toBe(completionId(newRequestId()));
  expect(toRequestId(completionId(requestId))).toBe(requestId);
  for (const id of [requestId, 'nonsense', '', 'log_', `ten_${'0'.repeat(32)}`]) {
    expect(toRequestId(id)).toBe(id);
  }
});
