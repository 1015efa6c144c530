import { expect, test } from 'bun:test';
import { unknownModelNamesMax } from '../core/bounds.ts';
import { UnknownModelNames } from './unknown-model-names.ts';

const first = Array.from({ length: unknownModelNamesMax }, (_, at) => `acme/typo-${at}`);

test('names that no model has are kept as they are until there are too many on a day', () => {
  let now = Date.UTC(2026, 0, 31, 23, 59);
  const strange = new UnknownModelNames(() => now);
  expect(first.map((name) => strange.recordedAs('ten_1', name))).toEqual(first);
  expect(strange.recordedAs('ten_1', 'acme/one-more')).toBe('unknown');
  expect(strange.recordedAs('ten_1', 'acme/one-more', 'acme/chat')).toBe('acme/chat');
  // Those that have a row have it already, and another tenant's are its own.
  expect(strange.recordedAs('ten_1', 'acme/typo-0')).toBe('acme/typo-0');
  expect(strange.recordedAs('ten_2', 'acme/one-more')).toBe('acme/one-more');
  now += 60_000;
  expect(strange.recordedAs('ten_1', 'acme/one-more')).toBe('acme/one-more');
});
