import { expect, test } from 'bun:test';
import { counted } from './counted.ts';

test('one is counted in the singular, all else in the plural', () => {
  expect(counted(1, 'credit')).toBe('1 credit');
  expect(counted(0, 'credit')).toBe('0 credits');
  expect(counted(2, 'credit')).toBe('2 credits');
  expect(counted(-1, 'credit')).toBe('-1 credits');
});

test('the plural may be another word, and bring its verb', () => {
  expect(counted(1, 'entry is', 'entries are')).toBe('1 entry is');
  expect(counted(3, 'entry is', 'entries are')).toBe('3 entries are');
});
