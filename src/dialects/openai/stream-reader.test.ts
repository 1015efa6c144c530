import { expect, test } from 'bun:test';
import { ToldAnswer } from '../../../tests/support/told-answer.ts';
import { AnswerTeller } from './stream-reader.ts';

test.each([
  ['length', 'length'],
  ['function_call', 'tool_calls'],
  ['constructor', 'stop'],
  ['__proto__', 'stop'],
  ['eos', 'stop'],
] as const)('an answer that ends with «%s» is told as %s', (reason, word) => {
  const told = new ToldAnswer();
  const teller = new AnswerTeller(told);
  teller.tell({ content: 'Hi' });
  teller.finish(reason);
  expect(told.finishReason).toBe(word);
});
