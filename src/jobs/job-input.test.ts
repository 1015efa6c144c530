import { expect, test } from 'bun:test';
import { GatewayError } from '../core/errors.ts';
import { readTranscriptionInput } from './job-input.ts';

const timed = (name: string, ...texts: string[]) =>
  readTranscriptionInput(
    new Map([
      ['model', ['acme/hear']],
      ['response_format', ['verbose_json']],
      [name, texts],
    ]),
  ).timestamp_granularities;

test.each([
  ['timestamp_granularities[]', ['word', 'segment'], ['word', 'segment']],
  ['timestamp_granularities', ['word'], ['word']],
  ['timestamp_granularities', ['["word"]'], ['word']],
  ['timestamp_granularities[]', ['[ "segment", "word" ]'], ['segment', 'word']],
  ['timestamp_granularities', ['word,segment'], ['word', 'segment']],
  ['timestamp_granularities', [''], []],
])('%s as %j', (name, texts, times) => {
  expect(timed(name, ...texts)).toEqual(times as never);
});

test('times numbered one by one, as PHP writes a list', () => {
  const fields = new Map([
    ['model', ['acme/hear']],
    ['timestamp_granularities[0]', ['word']],
    ['timestamp_granularities[1]', ['segment']],
  ]);
  const { timestamp_granularities } = readTranscriptionInput(fields);
  expect(timestamp_granularities).toEqual(['word', 'segment']);
});

test('a model under two spellings is given twice', () => {
  const fields = new Map([
    ['model', ['acme/hear']],
    ['model[0]', ['acme/other']],
  ]);
  expect(() => readTranscriptionInput(fields)).toThrow('model[0] is given more than once.');
});

test.each(['day', '["day"]', '["word"', '[["word"]]', '[1]', '["word","word","word"]'])(
  'times that are none: %s',
  (text) => {
    expect(() => timed('timestamp_granularities', text)).toThrow(GatewayError);
  },
);
