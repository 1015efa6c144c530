import { expect, test } from 'bun:test';
import { fields, formatCount, formatMinute, table } from './output.ts';

test('table aligns columns by display width, with numbers to the right', () => {
  const text = table(
    ['ID', 'NAME', 'CREDITS'],
    [
      ['a', '東京', 1_234_567],
      ['longer', 'x', null],
    ],
  );
  expect(text.split('\n')).toEqual([
    'ID      NAME    CREDITS',
    'a       東京  1,234,567',
    'longer  x             –',
  ]);
});

test('table returns only the header if there are no rows', () => {
  expect(table(['ID', 'NAME'], [])).toBe('ID  NAME');
});

test('fields returns a line for each field', () => {
  expect(fields({ id: 'a', balance: 1000, note: null })).toBe(
    'id       a\nbalance  1,000\nnote     –',
  );
});

test('table and fields replace control characters', () => {
  expect(table(['NAME'], [['a\u001b[2Jb\nc\u009bd']])).toBe('NAME\na [2Jb c d');
  expect(fields({ name: 'a\r\nb' })).toBe('name  a b');
});

test('formatMinute shortens a time to the minute', () => {
  expect(formatMinute('2026-11-15T02:13:06.123Z')).toBe('2026-11-15 02:13');
  expect(formatMinute(null)).toBeNull();
});

test('formatCount uses the singular only for 1', () => {
  const counts = [0, 1, 2_000].map((count) => formatCount(count, 'entry', 'entries'));
  expect([...counts, formatCount(2, 'model')]).toEqual([
    '0 entries',
    '1 entry',
    '2,000 entries',
    '2 models',
  ]);
});
