import { expect, test } from 'bun:test';
import { countTokens, excerpt, TokenBudget } from './tokens.ts';

test('countTokens counts 4 bytes as a token, rounded up', () => {
  expect(['', 'a', 'abcd', 'abcde', '漢字'].map(countTokens)).toEqual([0, 1, 1, 2, 2]);
});

test('TokenBudget returns text until it is used up', () => {
  const budget = new TokenBudget(3);
  expect(budget.take('abcdef')).toBe('abcdef');
  expect(budget.exceeded).toBe(false);
  expect(budget.take('ghijkl')).toBe('ghij');
  expect(budget.take('m')).toBe('');
  expect(budget).toMatchObject({ used: 3, exceeded: true });
});

test('TokenBudget never splits a character', () => {
  expect(new TokenBudget(1).take('漢字')).toBe('漢');
  expect(new TokenBudget(1).take('abc🦊')).toBe('abc');
  expect(new TokenBudget(2).take('abcd🦊!')).toBe('abcd🦊');
});

test('excerpt adds an ellipsis only if it truncates', () => {
  expect(excerpt('short', 5)).toBe('short');
  expect(excerpt('longer', 5)).toBe('longe…');
  expect(excerpt('🦊🦊🦊', 2)).toBe('🦊🦊…');
});
