import { expect, test } from 'bun:test';
import { readTranscript } from './transcription.ts';

test.each([
  [{ duration: 8.47 }, 8.47],
  [{ duration: '2.5' }, 2.5],
  [{ duration: null, usage: { type: 'duration', seconds: 3 } }, 3],
  [{ duration: -5 }, null],
  [{ duration: null }, null],
  [{ duration: 'long' }, null],
  [{}, null],
])('of %j the length is all that is told as such', (told, seconds) => {
  const read = readTranscript(JSON.stringify({ text: 'ok', language: 'de', ...told }), 'json');
  expect(read).toMatchObject({ kind: 'fields', text: 'ok', seconds });
  expect(read).toHaveProperty('fields.language', 'de');
  expect(read).not.toHaveProperty('fields.duration');
});
