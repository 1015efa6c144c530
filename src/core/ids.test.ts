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

describe('a request id', () => {
  test('is a UUID of version 4, and none is like another', () => {
    const ids = Array.from({ length: 1_000 }, () => newRequestId());
    expect(new Set(ids.map((id) => id.slice(9))).size).toBe(1_000);
    for (const id of ids) {
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    }
  });

  test('begins with its second, so that later ones are sorted behind', () => {
    expect(newRequestId(Date.UTC(2026, 0, 1))).toStartWith('6955b900-');
    expect(newRequestId(1_999)).toStartWith('00000001-');
    expect(newRequestId(Date.UTC(2106, 1, 7, 6, 28, 15))).toStartWith('ffffffff-');
  });

  test.each([Date.UTC(2106, 1, 7, 6, 28, 16), Date.UTC(2155, 11, 31), -1])(
    'has its form by a clock that says %d, or its charge could never be booked',
    (now) => expect(newRequestId(now)).toMatch(requestIdPattern),
  );

  test('tells its second again; anything else tells none', () => {
    expect(requestIdTime(newRequestId(Date.UTC(2026, 0, 1, 0, 0, 7) + 999))).toBe(
      1_767_225_607_000,
    );
    expect(requestIdTime('6955b90')).toBeNaN();
    expect(requestIdTime('job_6955b900-')).toBeNaN();
  });
});

test('a completion id leads back to its request', () => {
  const requestId = newRequestId();
  expect(completionId(requestId)).toMatch(/^chatcmpl-[0-9a-f]{32}$/);
  expect(completionId(requestId)).toBe(completionId(requestId));
  expect(completionId(requestId)).not.toBe(completionId(newRequestId()));
  expect(toRequestId(completionId(requestId))).toBe(requestId);
  for (const id of [requestId, 'nonsense', '', 'log_', `ten_${'0'.repeat(32)}`]) {
    expect(toRequestId(id)).toBe(id);
  }
});
