import { expect, test } from 'bun:test';
import { unknownModelNamesMax } from '../core/bounds.ts';
import { UnknownModelNames } from './unknown-model-names.ts';

const first = Array.from({ length: unknownModelNamesMax }, (_, index) => `acme/typo-${index}`);

test('UnknownModelNames records names unchanged up to a daily limit per tenant', () => {
  let now = Date.UTC(2026, 0, 31, 23, 59);
  const unknownNames = new UnknownModelNames(() => now);
  expect(first.map((name) => unknownNames.recordedAs('ten_1', name))).toEqual(first);
  expect(unknownNames.recordedAs('ten_1', 'acme/one-more')).toBe('unknown');
  expect(unknownNames.recordedAs('ten_1', 'acme/one-more', 'acme/chat')).toBe('acme/chat');
  // Recorded names stay, and each tenant has its own limit.
  expect(unknownNames.recordedAs('ten_1', 'acme/typo-0')).toBe('acme/typo-0');
  expect(unknownNames.recordedAs('ten_2', 'acme/one-more')).toBe('acme/one-more');
  now += 60_000;
  expect(unknownNames.recordedAs('ten_1', 'acme/one-more')).toBe('acme/one-more');
});
