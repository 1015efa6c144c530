import { expect, test } from 'bun:test';
import { fc } from '../../tests/support/random.ts';
import { jsonEscapesMax, jsonStringsMax } from './bounds.ts';
import { exceededLimit, isDeeperThan } from './json.ts';

const unlimited = Number.POSITIVE_INFINITY;
const nestsDeeperThan = (levels: number, text: string) =>
  exceededLimit(text, { levels, names: unlimited }) === 'levels';

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
])('isDeeperThan and exceededLimit agree that %s has %d levels', (text, levels) => {
  const value: unknown = JSON.parse(text);
  expect(nestsDeeperThan(levels, text)).toBe(false);
  expect(isDeeperThan(levels, value)).toBe(false);
  if (levels === 0) return;
  expect(nestsDeeperThan(levels - 1, text)).toBe(true);
  expect(isDeeperThan(levels - 1, value)).toBe(true);
});

test('exceededLimit stops at the first bracket above the limit, even in incomplete JSON', () => {
  expect(nestsDeeperThan(128, '['.repeat(128))).toBe(false);
  expect(nestsDeeperThan(128, '['.repeat(1_000_000))).toBe(true);
  expect(nestsDeeperThan(128, '[]'.repeat(1_000_000))).toBe(false);
  expect(nestsDeeperThan(1, `["${'['.repeat(100)}`)).toBe(false);
  expect(nestsDeeperThan(1, `["${'[\\"'.repeat(100)}`)).toBe(false);
});

test.each<[string, number]>([
  ['":"', 0],
  ['[1,2]', 0],
  ['{"a":1}', 1],
  ['{"a:b":"c:\\":d"}', 1],
  ['[{"a":1},{"a":{"b":[{"c":":"}]}}]', 4],
])('exceededLimit: %s has %d field names', (text, names) => {
  expect(exceededLimit(text, { levels: unlimited, names })).toBeUndefined();
  if (names > 0) expect(exceededLimit(text, { levels: unlimited, names: names - 1 })).toBe('names');
});

test.each<[string, number]>([
  ['"[,{"', 0],
  ['[]', 1],
  ['[1,2]', 2],
  ['[[],[[]]]', 5],
  ['{"a":1,"b":{"c":[2,3]}}', 5],
])('exceededLimit: %s has %d values (commas and opening brackets)', (text, values) => {
  const most = { levels: unlimited, names: unlimited };
  expect(exceededLimit(text, { ...most, values })).toBeUndefined();
  if (values > 0) expect(exceededLimit(text, { ...most, values: values - 1 })).toBe('values');
});

test('exceededLimit ignores the content of strings, including long and escaped ones', () => {
  const unit = fc.constantFrom('"', '\\', '[', '{', '}', ':', ',', '\n', 'é', 'a river '.repeat(9));
  const text = fc.string({ unit, maxLength: 60 });
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof({ maxDepth: 4 }, text, tie('list'), tie('record')),
    list: fc.array(tie('value'), { maxLength: 4 }),
    record: fc.dictionary(text, tie('value'), { maxKeys: 4 }),
  }));
  fc.assert(
    fc.property(value, (tree) => {
      const most = { levels: levelsOf(tree), names: namesOf(tree) };
      const written = JSON.stringify(tree);
      expect(exceededLimit(written, most)).toBeUndefined();
      const { levels, names } = most;
      if (levels > 0)
        expect(exceededLimit(written, { ...most, levels: levels - 1 })).toBe('levels');
      if (names > 0) expect(exceededLimit(written, { ...most, names: names - 1 })).toBe('names');
    }),
    { numRuns: 2_000 },
  );
});

const childrenOf = (value: unknown): readonly unknown[] =>
  typeof value === 'object' && value !== null ? Object.values(value) : [];

function levelsOf(value: unknown): number {
  return typeof value === 'object' ? 1 + Math.max(0, ...childrenOf(value).map(levelsOf)) : 0;
}

function namesOf(value: unknown): number {
  const own = Array.isArray(value) ? 0 : childrenOf(value).length;
  return childrenOf(value).reduce((sum: number, child) => sum + namesOf(child), own);
}

const many = (count: number, write: (n: number) => string) =>
  `[${Array.from({ length: count }, (_, n) => write(n)).join(',')}]`;

test.each([
  ['names', (n: number) => `{"name ${n}":0}`],
  ['short strings', (n: number) => `"s${n}"`],
])('exceededLimit estimates the number of different %s', (_, write) => {
  const limits = { levels: unlimited, names: unlimited };
  const half = jsonStringsMax / 2;
  expect(exceededLimit(many(half, write), limits)).toBeUndefined();
  expect(exceededLimit(many(2 * jsonStringsMax, write), limits)).toBe('strings');
  expect(
    exceededLimit(
      many(4 * half, (n) => write(n % half)),
      limits,
    ),
  ).toBeUndefined();
});

test('exceededLimit counts escaped characters', () => {
  const limits = { levels: unlimited, names: unlimited };
  const escaped = (count: number) => `["${'\\\\'.repeat(count - 1)}","\\n"]`;
  expect(exceededLimit(escaped(jsonEscapesMax), limits)).toBeUndefined();
  expect(exceededLimit(escaped(jsonEscapesMax + 1), limits)).toBe('escapes');
});
