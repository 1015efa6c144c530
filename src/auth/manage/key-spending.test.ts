import { expect, test } from 'bun:test';
import { spentInPeriod } from './key-spending.ts';

test('a limit without a period counts everything ever spent', () => {
  const spending = { total: 4, daily: 1, weekly: 2, monthly: 3 };
  expect(spentInPeriod(spending, null)).toBe(4);
  expect(spentInPeriod(spending, 'weekly')).toBe(2);
});
