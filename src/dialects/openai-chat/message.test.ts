import { describe, expect, test } from 'bun:test';
import { RecordingSink } from '../../../tests/support/recording-sink.ts';
import { normalizeText, stopSequenceIn } from './message.ts';
import { OpenAiStreamReader, readFullReply } from './upstream/reader.ts';

const stub = { name: '', arguments: '' };

describe('an empty function_call', () => {
  test.each([{}, { content: 'Hi' }, { tool_calls: [{ id: 'a' }] }])(
    'is dropped next to %j',
    (rest) => {
      const message = { ...rest, function_call: stub };
      expect(normalizeText(message)).toBe(true);
      expect(JSON.parse(JSON.stringify(message))).toEqual(rest);
    },
  );

  test('is not sent to clients, streamed or not', () => {
    const [complete, streamed] = [new RecordingSink(), new RecordingSink()];
    const content = { role: 'assistant', content: 'Hi', function_call: stub };
    const choice = { index: 0, finish_reason: 'stop' };
    readFullReply(JSON.stringify({ choices: [{ ...choice, message: content }] }), complete);
    const data = JSON.stringify({ choices: [{ ...choice, delta: content }] });
    new OpenAiStreamReader(streamed).push({ event: null, data });
    for (const sink of [complete, streamed])
      expect([sink.fullText, sink.calls]).toEqual(['Hi', []]);
  });
});

test.each([
  ['END', 'END'],
  // Baidu sends `normal` as a finish reason, but in another field.
  ['normal', 'normal'],
  ['stop', null],
  ['EOS', null],
  [2, null],
])('stopSequenceIn reads the stop reason %j as the stop sequence %j', (reason, sequence) => {
  expect(stopSequenceIn({ stop_reason: reason })).toBe(sequence);
});

test.each([{ name: 'look', arguments: '' }, { arguments: '{' }, null])(
  'normalizeText keeps the function_call %j',
  (function_call) => {
    const message = { content: null, function_call };
    expect(normalizeText(message)).toBe(false);
    expect(message).toEqual({ content: null, function_call });
  },
);
