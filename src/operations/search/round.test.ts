import { expect, test } from 'bun:test';
import { ToldAnswer } from '../../../tests/support/told-answer.ts';
import { SearchRound } from './round.ts';

test('everything that a model says in a round counts in its estimate, searches too', () => {
  const round = new SearchRound('search', new ToldAnswer());
  const lengths: number[] = [];
  const after = (say: () => void) => {
    say();
    lengths.push(round.characters);
  };
  after(() => round.reasoning('why'));
  after(() => round.reasoningSignature('signed'));
  after(() => round.redactedReasoning('hidden'));
  after(() => round.reasoning('so'));
  after(() => round.text('Rain'));
  after(() => round.toolCall(0, 'a', 'search'));
  after(() => round.toolArguments(0, '{"query":"'));
  after(() => round.toolArguments(0, 'rain"}'));
  expect(lengths).toEqual([3, 3, 9, 11, 15, 21, 31, 37]);
});
