import { expect, test } from 'bun:test';
import { GatewayError } from '../core/errors.ts';
import { readSpeechInput, readTranscriptionInput } from './job-input.ts';

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
    ['response_format', ['verbose_json']],
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
  expect(() => readTranscriptionInput(fields)).toThrow('model[0] is given twice.');
});

test.each(['day', '["day"]', '["word"', '[["word"]]', '[1]', '["word","word","word"]'])(
  'times that are none: %s',
  (text) => {
    expect(() => timed('timestamp_granularities', text)).toThrow(GatewayError);
  },
);

const blank = ['temperature', 'language', 'prompt', 'response_format', 'webhook_url', 'metadata'];
test('fields that were left blank are not there', () => {
  const fields = new Map([['model', ['acme/hear']]]);
  for (const name of blank) fields.set(name, ['']);
  expect(readTranscriptionInput(fields)).toEqual({ model: 'acme/hear' });
  expect(() => readTranscriptionInput(new Map([['model', ['']]]))).toThrow('model is required');
});

test.each([
  ['0', 0],
  ['1.', 1],
  ['.5', 0.5],
  ['5e-1', 0.5],
  ['1E-05', 0.00001],
])('a temperature may be written %s', (text, temperature) => {
  const fields = new Map([
    ['model', ['acme/hear']],
    ['temperature', [text]],
  ]);
  expect(readTranscriptionInput(fields).temperature).toBe(temperature);
});

test('digits without end are no temperature, and are looked at once', () => {
  const fields = new Map([
    ['model', ['acme/hear']],
    ['temperature', [`${'1'.repeat(200_000)}x`]],
  ]);
  expect(() => readTranscriptionInput(fields)).toThrow('temperature must be');
});

test('times need a form of transcript that has a place for them', () => {
  const fields = new Map([
    ['model', ['acme/hear']],
    ['timestamp_granularities[]', ['word']],
  ]);
  expect(() => readTranscriptionInput(fields)).toThrow('needs the response_format verbose_json');
});

test.each(['models', 'models[]', 'provider', 'provider[only][]', 'route'])(
  'a wish about the way is not passed over: %s',
  (name) => {
    const form = (text: string) =>
      readTranscriptionInput(
        new Map([
          ['model', ['acme/hear']],
          [name, [text]],
        ]),
      );
    expect(() => form('acme')).toThrow('must be left out');
    expect(form('')).toMatchObject({ model: 'acme/hear' });
    const speech = { model: 'acme/say', input: 'Hello', voice: 'alloy' };
    expect(() => readSpeechInput({ ...speech, [name]: ['acme'] })).toThrow(`${name} must be left`);
    expect(readSpeechInput({ ...speech, [name]: null })).toMatchObject(speech);
  },
);
