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
])('effortOf converts effort %p and %p tokens to %p', (effort, budgetTokens, expected) => {
  expect(effortOf({ effort, budgetTokens, visible: true })).toBe(expected);
});

test('effortOf returns null without reasoning options', () => {
  expect(effortOf(null)).toBeNull();
});
