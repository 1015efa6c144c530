import { expect, test } from 'bun:test';
import { counted, fields, minute, table } from './output.ts';

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

test('control characters in texts of users do not reach the terminal', () => {
  expect(table(['NAME'], [['a\u001b[2Jb\nc\u009bd']])).toBe('NAME\na [2Jb c d');
  expect(fields({ name: 'a\r\nb' })).toBe('name  a b');
});

test('times are shortened to the minute', () => {
  expect(minute('2026-11-15T02:13:06.123Z')).toBe('2026-11-15 02:13');
  expect(minute(null)).toBeNull();
});

test('what is counted is one or many', () => {
  const counts = [0, 1, 2_000].map((count) => counted(count, 'entry', 'entries'));
  expect([...counts, counted(2, 'model')]).toEqual([
    '0 entries',
    '1 entry',
    '2,000 entries',
    '2 models',
  ]);
});
