import { describe, expect, test } from 'bun:test';
import type { LimitReset } from '../../core/caller.ts';
import { periodEnd, spentInPeriod } from './key-spending.ts';

describe('a period ends', () => {
  const cases: [LimitReset, string, string][] = [
    ['daily', '2026-11-15T00:00:00.000Z', '2026-11-16T00:00:00.000Z'],
    ['daily', '2026-11-30T23:59:59.999Z', '2026-12-01T00:00:00.000Z'],
    ['weekly', '2026-11-15T23:59:59.999Z', '2026-11-16T00:00:00.000Z'],
    ['weekly', '2026-11-16T00:00:00.000Z', '2026-11-23T00:00:00.000Z'],
    ['weekly', '2026-12-30T08:00:00.000Z', '2027-01-04T00:00:00.000Z'],
    ['monthly', '2026-12-31T23:59:59.999Z', '2027-01-01T00:00:00.000Z'],
    ['monthly', '2028-02-29T12:00:00.000Z', '2028-03-01T00:00:00.000Z'],
  ];
  test.each(cases)('%s, at %s, on %s', (reset, now, end) => {
    expect(new Date(periodEnd(reset, Date.parse(now))).toISOString()).toBe(end);
  });
});

test('a limit without a period counts everything ever spent', () => {
  const spending = { total: 4, daily: 1, weekly: 2, monthly: 3 };
  expect(spentInPeriod(spending, null)).toBe(4);
  expect(spentInPeriod(spending, 'weekly')).toBe(2);
});
