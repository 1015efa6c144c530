import { expect, test } from 'bun:test';
import { isDeeperThan, nestsDeeperThan } from './json-depth.ts';

test.each<[string, number]>([
  ['1', 0],
  ['"[[["', 0],
  ['[]', 1],
  ['{"a":1,"b":"}"}', 1],
  ['[[],[],[]]', 2],
  ['{"a":[{"b":[]}]}', 4],
  ['[1,"]\\"[[",[2]]', 2],
  ['["\\\\",[]]', 2],
  ['{"[":"é😀{","a":{}}', 2],
])('%s has %d levels, as a text and as a value', (text, levels) => {
  const value: unknown = JSON.parse(text);
  expect(nestsDeeperThan(levels, text)).toBe(false);
  expect(isDeeperThan(levels, value)).toBe(false);
  if (levels === 0) return;
  expect(nestsDeeperThan(levels - 1, text)).toBe(true);
  expect(isDeeperThan(levels - 1, value)).toBe(true);
});

test('a text is given up at the first bracket too many, whether or not it ends', () => {
  expect(nestsDeeperThan(128, '['.repeat(128))).toBe(false);
  expect(nestsDeeperThan(128, '['.repeat(1_000_000))).toBe(true);
  expect(nestsDeeperThan(128, '[]'.repeat(1_000_000))).toBe(false);
});
