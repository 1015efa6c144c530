import { expect, test } from 'bun:test';
import { failureIn, valueIn } from '../../../tests/support/read-result.ts';
import { readTranscript } from './transcription.ts';

test.each([
  [{ duration: 8.47 }, 8.47],
  [{ duration: '2.5' }, 2.5],
  [{ duration: null, usage: { type: 'duration', seconds: 3 } }, 3],
  [{ duration: -5 }, null],
  [{ duration: null }, null],
  [{ duration: 'long' }, null],
  [{}, null],
])('of %j, only a length that can be read is told, and no raw duration', (told, seconds) => {
  const answer = JSON.stringify({ text: 'ok', language: 'de', ...told });
  const read = valueIn(readTranscript(answer, 'json'));
  expect(read).toMatchObject({ kind: 'fields', text: 'ok', seconds });
  expect(read).toHaveProperty('fields.language', 'de');
  expect(read).not.toHaveProperty('fields.duration');
});

test.each([
  ['text', '<!DOCTYPE html><title>Bad gateway</title>', 'The provider returned a web page.'],
  ['srt', ' <html>', 'The provider returned a web page.'],
  ['vtt', '{"text":"ok"}', 'The provider returned JSON in place of vtt.'],
] as const)('where %s was asked for, %s is no transcript', (format, answer, message) => {
  expect(failureIn(readTranscript(answer, format))).toMatchObject({ kind: 'malformed', message });
});

test('the text is read from JSON where plain text was asked for', () => {
  const read = (answer: string) => valueIn(readTranscript(answer, 'text'));
  expect(read('{"text":"ok"}')).toMatchObject({ kind: 'fields', text: 'ok' });
  expect(read('{braces}, said she')).toEqual({
    kind: 'text',
    text: '{braces}, said she',
  });
});
