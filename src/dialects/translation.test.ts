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

/** What an answer that is cut is billed by, and what forbids a second attempt. */
test.each<[string, (to: Tally) => void, number]>([
  ['words', (to) => to.text('Hello'), 5],
  ['thoughts', (to) => to.reasoning('Hmm'), 3],
  ['hidden thoughts', (to) => to.redactedReasoning('EncA'), 4],
  ['refusals', (to) => to.refusal('No.'), 3],
  ['the name of a call', (to) => to.toolCall(0, 'call_1', 'look'), 4],
  ['a signature, which is nobody’s words', (to) => to.reasoningSignature('EqYC'), 0],
])('%s are counted, and begin an answer', (_, tell, characters) => {
  const tally = new Tally(new ToldAnswer());
  expect([tally.started, tally.facts.outputCharacters]).toEqual([false, 0]);
  tell(tally);
  expect([tally.started, tally.facts.outputCharacters]).toEqual([true, characters]);
});

test('arguments count beside the name of their call, and a finish counts for nothing', () => {
  const tally = new Tally(new ToldAnswer());
  tally.toolCall(0, 'call_1', 'look');
  tally.toolArguments(0, '{"a":1}');
  tally.finish('tool_calls', null);
  expect(tally.facts).toMatchObject({ outputCharacters: 11, finishReason: 'tool_calls' });
});
