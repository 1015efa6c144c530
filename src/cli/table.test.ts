import { expect, test } from 'bun:test';
import { fields, minute, table } from './table.ts';

test('columns are aligned, numbers to the right, wide characters by their width', () => {
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

test('an empty table is its header', () => {
  expect(table(['ID', 'NAME'], [])).toBe('ID  NAME');
});

test('a record has a line for each field', () => {
  expect(fields({ id: 'a', balance: 1000, note: null })).toBe(
    'id       a\nbalance  1,000\nnote     –',
  );
});

test('times are shortened to the minute', () => {
  expect(minute('2026-11-15T02:13:06.123Z')).toBe('2026-11-15 02:13');
  expect(minute(null)).toBeNull();
});
