import { expect, test } from 'bun:test';
import { RecordingSink } from '../../../tests/support/recording-sink.ts';
import { noUsage } from '../../core/usage.ts';
import { SearchRound } from './round.ts';

const options = { separator: '', isJson: false, onTextEnd: () => undefined };

test('SearchRound counts all output of the model, including searches', () => {
  const round = new SearchRound('search', new RecordingSink(), options);
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
  ['text', true, (round) => round.text('Rain')],
  ['reasoning', true, (round) => round.reasoning('why')],
  ['redacted reasoning', true, (round) => round.redactedReasoning('hidden')],
  ["a call to the client's tool", true, (round) => round.toolCall(0, 'a', 'lookup')],
  ['a refusal', true, (round) => round.refusal('No.')],
  ['an image', true, (round) => round.image('image/png', 'AAAA')],
])('SearchRound has output for the client after %s: %p', (_, isSent, emit) => {
  const round = new SearchRound('search', new RecordingSink(), options);
  emit(round);
  expect(round.hasOutput).toBe(isSent);
});

test("SearchRound streams JSON, but holds back preceding text until it is clear that the model won't search", () => {
  const outputOf = (emit: (round: SearchRound) => void) => {
    const answer = new RecordingSink();
    const round = new SearchRound('search', answer, { ...options, isJson: true });
    emit(round);
    return [answer.fullText, round.sentText, round.hasOutput];
  };
  expect(outputOf((round) => round.text(' {"a":'))).toEqual([' {"a":', ' {"a":', true]);
  expect(outputOf((round) => round.text('Wait.'))).toEqual(['', '', false]);
  const afterAll = (round: SearchRound) => {
    round.text('```json');
    round.text('{}');
    round.flush();
  };
  expect(outputOf(afterAll)).toEqual(['```json{}', '```json{}', true]);
  const beforeACall = (round: SearchRound) => {
    round.text('Wait.');
    round.toolCall(0, 'a', 'lookup');
  };
  expect(outputOf(beforeACall)).toEqual(['Wait.', 'Wait.', true]);
});

test('SearchRound estimates output after the last reported usage, or all output if none was reported', () => {
  const usageOf = (outputTokens: number) => {
    const round = new SearchRound('search', new RecordingSink(), options);
    round.text('x'.repeat(40));
    round.usage({ ...noUsage, inputTokens: 10, outputTokens });
    round.text('x'.repeat(40));
    return round.metrics.usage?.outputTokens;
  };
  expect([usageOf(7), usageOf(0), usageOf(50)]).toEqual([17, 20, 50]);
});
