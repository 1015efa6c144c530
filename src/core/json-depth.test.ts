import { expect, test } from 'bun:test';
import { excessIn, isDeeperThan } from './json-depth.ts';

const endless = Number.POSITIVE_INFINITY;
const nestsDeeperThan = (levels: number, text: string) =>
  excessIn(text, { levels, names: endless }) === 'levels';

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

test.each<[string, number]>([
  ['":"', 0],
  ['[1,2]', 0],
  ['{"a":1}', 1],
  ['{"a:b":"c:\\":d"}', 1],
  ['[{"a":1},{"a":{"b":[{"c":":"}]}}]', 4],
])('%s has %d names of fields', (text, names) => {
  expect(excessIn(text, { levels: endless, names })).toBeUndefined();
  if (names > 0) expect(excessIn(text, { levels: endless, names: names - 1 })).toBe('names');
});
