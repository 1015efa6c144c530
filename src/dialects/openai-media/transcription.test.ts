import { expect, test } from 'bun:test';
import { failureIn, valueIn } from '../../../tests/support/read-result.ts';
import { readTranscript } from './transcription.ts';

test.each([
  [{ duration: 8.47 }, 8.47],
  [{ duration: '2.5' }, 2.5],
  [{ duration: null, usage: { type: 'duration', seconds: 3 } }, 3],
  [{ duration: -5 }, 0],
  [{ duration: 0, usage: { type: 'duration', seconds: 3 } }, 3],
  [{ duration: null }, null],
  [{ duration: 'long' }, null],
  [{}, null],
])('readTranscript reads the duration of %j as %p and drops the raw value', (fields, seconds) => {
  const answer = JSON.stringify({ text: 'ok', language: 'de', ...fields });
  const read = valueIn(readTranscript(answer, 'json'));
  expect(read).toMatchObject({ kind: 'fields', text: 'ok', seconds });
  expect(read).toHaveProperty('fields.language', 'de');
  expect(read).not.toHaveProperty('fields.duration');
});

test.each([
  ['text', '<!DOCTYPE html><title>Bad gateway</title>', 'The provider returned a web page.'],
  ['srt', ' <html>', 'The provider returned a web page.'],
  ['vtt', '{"text":"ok"}', 'The provider returned JSON instead of vtt.'],
] as const)('readTranscript rejects a transcript in format %s: %s', (format, answer, message) => {
  expect(failureIn(readTranscript(answer, format))).toMatchObject({ kind: 'malformed', message });
});

test('readTranscript reads the text from JSON instead of plain text', () => {
  const read = (answer: string) => valueIn(readTranscript(answer, 'text'));
  expect(read('{"text":"ok"}')).toMatchObject({ kind: 'fields', text: 'ok' });
  expect(read('{braces}, she said')).toEqual({
    kind: 'text',
    text: '{braces}, she said',
  });
});

test("readTranscript removes the provider's charges and request ID", () => {
  const usage = { type: 'duration', seconds: 3, cost: 0.5, details: { cost_in_usd_ticks: 7 } };
  const charges = {
    usage,
    billing: { payer: 'x' },
    cost: 0.5,
    x_groq: { id: 'req_1' },
    provider: 'y',
  };
  const read = valueIn(readTranscript(JSON.stringify({ text: 'ok', ...charges }), 'json'));
  expect(JSON.parse(JSON.stringify(read))).toEqual({
    ...{ kind: 'fields', text: 'ok', seconds: 3 },
    fields: { usage: { type: 'duration', seconds: 3, details: {} } },
  });
});
