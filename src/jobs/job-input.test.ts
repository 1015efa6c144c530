import { describe, expect, test } from 'bun:test';
import { GatewayError } from '../core/errors.ts';
import { readSpeechInput, readTranscriptionInput } from './job-input.ts';

const readGranularities = (name: string, ...texts: string[]) =>
  readTranscriptionInput(
    new Map([
      ['model', ['acme/hear']],
      ['response_format', ['verbose_json']],
      [name, texts],
    ]),
  ).timestamp_granularities;

describe('job input', () => {
  test.each([
    ['timestamp_granularities[]', ['word', 'segment'], ['word', 'segment']],
    ['timestamp_granularities', ['word'], ['word']],
    ['timestamp_granularities', ['["word"]'], ['word']],
    ['timestamp_granularities[]', ['[ "segment", "word" ]'], ['segment', 'word']],
    ['timestamp_granularities', ['word,segment'], ['word', 'segment']],
    ['timestamp_granularities', [''], []],
  ])('reads %s sent as %j', (name, texts, granularities) => {
    expect(readGranularities(name, ...texts)).toEqual(granularities as never);
  });

  test('reads a list with numbered field names, as PHP sends it', () => {
    const fields = new Map([
      ['model', ['acme/hear']],
      ['response_format', ['verbose_json']],
      ['timestamp_granularities[0]', ['word']],
      ['timestamp_granularities[1]', ['segment']],
    ]);
    const { timestamp_granularities } = readTranscriptionInput(fields);
    expect(timestamp_granularities).toEqual(['word', 'segment']);
  });

  test('rejects a field that is sent under two spellings', () => {
    const fields = new Map([
      ['model', ['acme/hear']],
      ['model[0]', ['acme/other']],
    ]);
    expect(() => readTranscriptionInput(fields)).toThrow('model[0] appears twice.');
  });

  test.each(['day', '["day"]', '["word"', '[["word"]]', '[1]', '["word","word","word"]'])(
    'rejects invalid timestamp granularities: %s',
    (text) => {
      expect(() => readGranularities('timestamp_granularities', text)).toThrow(GatewayError);
    },
  );

  const blank = ['temperature', 'language', 'prompt', 'response_format', 'webhook_url', 'metadata'];
  test('treats an empty field as absent', () => {
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
  ])('accepts a temperature written as %s', (text, temperature) => {
    const fields = new Map([
      ['model', ['acme/hear']],
      ['temperature', [text]],
    ]);
    expect(readTranscriptionInput(fields).temperature).toBe(temperature);
  });

  test('rejects a temperature of 200,000 digits without backtracking', () => {
    const fields = new Map([
      ['model', ['acme/hear']],
      ['temperature', [`${'1'.repeat(200_000)}x`]],
    ]);
    expect(() => readTranscriptionInput(fields)).toThrow('temperature must be');
  });

  test('requires verbose_json for timestamp granularities', () => {
    const fields = new Map([
      ['model', ['acme/hear']],
      ['timestamp_granularities[]', ['word']],
    ]);
    expect(() => readTranscriptionInput(fields)).toThrow('requires response_format verbose_json');
  });

  test.each(['models', 'models[]', 'provider', 'provider[only][]', 'route'])(
    'rejects a routing field: %s',
    (name) => {
      const form = (text: string) =>
        readTranscriptionInput(
          new Map([
            ['model', ['acme/hear']],
            [name, [text]],
          ]),
        );
      expect(() => form('acme')).toThrow("isn't supported for jobs");
      expect(form('')).toMatchObject({ model: 'acme/hear' });
      const speech = { model: 'acme/say', input: 'Hello', voice: 'alloy' };
      expect(() => readSpeechInput({ ...speech, [name]: ['acme'] })).toThrow(
        `${name} isn't supported for jobs`,
      );
      expect(readSpeechInput({ ...speech, [name]: null })).toMatchObject(speech);
    },
  );
});
