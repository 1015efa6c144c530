import { describe, expect, test } from 'bun:test';
import { ToldAnswer } from '../../../tests/support/told-answer.ts';
import { normalizeText, stopSequenceIn } from './message.ts';
import { OpenAiStreamReader, readFullReply } from './upstream/reader.ts';

const stub = { name: '', arguments: '' };

describe('a tool call without a function', () => {
  test.each([{}, { content: 'Hi' }, { tool_calls: [{ id: 'a' }] }])(
    'is dropped next to %j',
    (rest) => {
      const given = { ...rest, function_call: stub };
      expect(normalizeText(given)).toBe(true);
      expect(JSON.parse(JSON.stringify(given))).toEqual(rest);
    },
  );

  test('is not sent to clients, streamed or not', () => {
    const [whole, streamed] = [new ToldAnswer(), new ToldAnswer()];
    const content = { role: 'assistant', content: 'Hi', function_call: stub };
    const choice = { index: 0, finish_reason: 'stop' };
    readFullReply(JSON.stringify({ choices: [{ ...choice, message: content }] }), whole);
    const data = JSON.stringify({ choices: [{ ...choice, delta: content }] });
    new OpenAiStreamReader(streamed).push({ event: null, data });
    for (const told of [whole, streamed]) expect([told.said, told.calls]).toEqual(['Hi', []]);
  });
});

test.each([
  ['END', 'END'],
  // No server is known to say it of an end, so it is the client's own.
  ['normal', 'normal'],
  ['stop', null],
  ['EOS', null],
  [2, null],
])('stopSequenceIn reads the stop reason %j as the stop sequence %j', (met, sequence) => {
  expect(stopSequenceIn({ stop_reason: met })).toBe(sequence);
});

test.each([{ name: 'look', arguments: '' }, { arguments: '{' }, null])(
  'keeps a call that has %j',
  (function_call) => {
    const given = { content: null, function_call };
    expect(normalizeText(given)).toBe(false);
    expect(given).toEqual({ content: null, function_call });
  },
);
