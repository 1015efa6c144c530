import { expect, test } from 'bun:test';
import { ToldAnswer } from '../../../tests/support/told-answer.ts';
import { noUsage } from '../../core/usage.ts';
import { SearchRound } from './round.ts';

const plainly = { separator: '', isJson: false, onTextEnd: () => undefined };

test('everything that a model says in a round counts in its estimate, searches too', () => {
  const round = new SearchRound('search', new ToldAnswer(), plainly);
  const lengths: number[] = [];
  const after = (emit: () => void) => {
    emit();
    lengths.push(round.metrics.outputCharacters);
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

test.each<[string, boolean, (round: SearchRound) => void]>([
  ['a search', false, (round) => round.toolCall(0, 'a', 'search')],
  ['a word', true, (round) => round.text('Rain')],
  ['a thought', true, (round) => round.reasoning('why')],
  ['a thought that is hidden', true, (round) => round.redactedReasoning('hidden')],
  ['a call of the client’s own', true, (round) => round.toolCall(0, 'a', 'lookup')],
  ['a refusal', true, (round) => round.refusal('No.')],
  ['a picture', true, (round) => round.image('image/png', 'AAAA')],
])('%s is told to the client: %p', (_, isSent, emit) => {
  const round = new SearchRound('search', new ToldAnswer(), plainly);
  emit(round);
  expect(round.hasOutput).toBe(isSent);
});

test('JSON is told as it comes, words before it only if nothing is searched', () => {
  const hear = (emit: (round: SearchRound) => void) => {
    const reported = new ToldAnswer();
    const round = new SearchRound('search', reported, { ...plainly, isJson: true });
    emit(round);
    return [reported.said, round.sentText, round.hasOutput];
  };
  expect(hear((round) => round.text(' {"a":'))).toEqual([' {"a":', ' {"a":', true]);
  expect(hear((round) => round.text('Wait.'))).toEqual(['', '', false]);
  const afterAll = (round: SearchRound) => {
    round.text('```json');
    round.text('{}');
    round.flush();
  };
  expect(hear(afterAll)).toEqual(['```json{}', '```json{}', true]);
  const beforeACall = (round: SearchRound) => {
    round.text('Wait.');
    round.toolCall(0, 'a', 'lookup');
  };
  expect(hear(beforeACall)).toEqual(['Wait.', 'Wait.', true]);
});

test('words behind a count are guessed, and all of them where none were counted', () => {
  const usageOf = (outputTokens: number) => {
    const round = new SearchRound('search', new ToldAnswer(), plainly);
    round.text('x'.repeat(40));
    round.usage({ ...noUsage, inputTokens: 10, outputTokens });
    round.text('x'.repeat(40));
    return round.metrics.usage?.outputTokens;
  };
  expect([usageOf(7), usageOf(0), usageOf(50)]).toEqual([17, 20, 50]);
});
