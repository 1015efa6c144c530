import { expect, test } from 'bun:test';
import { ToldAnswer } from '../../tests/support/told-answer.ts';
import { noUsage } from '../core/usage.ts';
import { Tally } from './translation.ts';

test('whoever listens to the tally hears which usage is a guess', () => {
  const told = new ToldAnswer();
  const tally = new Tally(told);
  tally.usage(noUsage, true);
  expect([told.isEstimate, tally.facts.isEstimate]).toEqual([true, true]);
  tally.usage(noUsage);
  expect([told.isEstimate, tally.facts.isEstimate]).toEqual([false, false]);
});
