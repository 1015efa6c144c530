import { expect, test } from 'bun:test';
import { countTokens, excerpt, TokenBudget } from './tokens.ts';

test('every four bytes, and what is left over, are a token', () => {
  expect(['', 'a', 'abcd', 'abcde', '漢字'].map(countTokens)).toEqual([0, 1, 1, 2, 2]);
});

test('a budget hands out text until it is used up', () => {
  const budget = new TokenBudget(3);
  expect(budget.take('abcdef')).toBe('abcdef');
  expect(budget.exceeded).toBe(false);
  expect(budget.take('ghijkl')).toBe('ghij');
  expect(budget.take('m')).toBe('');
  expect(budget).toMatchObject({ used: 3, exceeded: true });
});

test('a budget never cuts inside a character', () => {
  expect(new TokenBudget(1).take('漢字')).toBe('漢');
  expect(new TokenBudget(1).take('abc🦊')).toBe('abc');
  expect(new TokenBudget(2).take('abcd🦊!')).toBe('abcd🦊');
});

test('an excerpt marks what it left out and nothing else', () => {
  expect(excerpt('short', 5)).toBe('short');
  expect(excerpt('longer', 5)).toBe('longe…');
  expect(excerpt('🦊🦊🦊', 2)).toBe('🦊🦊…');
});
