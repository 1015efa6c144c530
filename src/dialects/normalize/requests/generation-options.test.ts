import { expect, test } from 'bun:test';
import type { Effort } from '../../../core/prompt.ts';
import { effortOf } from './generation-options.ts';

test.each<[Effort | null, number | null, Effort | null]>([
  [null, null, null],
  ['none', null, 'none'],
  ['max', 100, 'max'],
  [null, 1, 'low'],
  [null, 2_048, 'low'],
  [null, 2_049, 'medium'],
  [null, 12_000, 'medium'],
  [null, 12_001, 'high'],
  [null, 1_000_000, 'high'],
])('effort %p with %p tokens is %p', (effort, budgetTokens, wanted) => {
  expect(effortOf({ effort, budgetTokens, visible: true })).toBe(wanted);
});

test('no wish is no effort', () => {
  expect(effortOf(null)).toBeNull();
});
