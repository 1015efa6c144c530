/** Recorded answers of Gemini, in our words and through clients of both kinds. */
import { expect, test } from 'bun:test';
import { geminiUpstream } from '../src/dialects/gemini/upstream.ts';
import { conform, hear, messagesOf, readFixture } from './support/upstream-conformance.ts';

conform('gemini', geminiUpstream, { streams: 6, broken: 0, replies: 6, errors: 2 });

const told = (path: string) => hear(geminiUpstream, messagesOf(readFixture(path))).told;

/** Signatures as they stand in the recording. */
const signaturesIn = (path: string) =>
  [...readFixture(path).matchAll(/"thoughtSignature": ?"([^"]+)"/g)].map((match) => match[1] ?? '');

test.each([
  'gemini/tool-stream.sse',
  'gemini/tool-stream-gemini3.sse',
  'gemini/tool-stream-no-args.sse',
  'gemini/tool-stream-partial-args.sse',
])('%s tells the signature right before its call, with its maker', (path) => {
  const [signature, ...more] = signaturesIn(path);
  expect(more).toEqual([]);
  expect(told(path).calls.map((call) => call.signature)).toEqual([
    `gemini:${signature}`,
    ...told(path)
      .calls.slice(1)
      .map(() => undefined),
  ]);
});

test('the signature of a text follows it, so that a client finds the text first', () => {
  const path = 'gemini/text-stream-gemini3.sse';
  expect(told(path).order).toEqual(['text', 'signature', 'finish']);
  expect(told(path).signatures).toEqual(signaturesIn(path).map((own) => `gemini:${own}`));
});
