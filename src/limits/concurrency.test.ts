import { expect, test } from 'bun:test';
import { ConcurrencyLimiter } from './concurrency.ts';

test('as many may enter as there are places, and a place that was left is free again', () => {
  const limiter = new ConcurrencyLimiter();
  expect([1, 2, 3].map(() => limiter.enter('acme', 2))).toEqual([true, true, false]);
  limiter.leave('acme');
  expect(limiter.enter('acme', 2)).toBe(true);
  expect(limiter.enter('acme', 2)).toBe(false);
});

test('tenants do not take each other’s places', () => {
  const limiter = new ConcurrencyLimiter();
  expect(limiter.enter('acme', 1)).toBe(true);
  expect(limiter.enter('other', 1)).toBe(true);
  limiter.leave('other');
  expect(limiter.enter('acme', 1)).toBe(false);
});

test('leaving once too often makes no extra place', () => {
  const limiter = new ConcurrencyLimiter();
  limiter.leave('acme');
  expect(limiter.enter('acme', 1)).toBe(true);
  expect(limiter.enter('acme', 1)).toBe(false);
});
