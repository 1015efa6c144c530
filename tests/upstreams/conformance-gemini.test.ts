/** Recorded answers from Gemini, translated for every client. */
import { expect, test } from 'bun:test';
import { geminiUpstream } from '../../src/dialects/gemini/upstream/upstream.ts';
import {
  expectTranslated,
  messagesOf,
  readFixture,
  readMessages,
  testRecordings,
} from '../support/upstream-conformance.ts';

testRecordings('gemini', geminiUpstream, { streams: 24, broken: 5, replies: 11, errors: 10 });

const sinkOf = (path: string) => readMessages(geminiUpstream, messagesOf(readFixture(path))).sink;

/** Returns the signatures in a recording. */
const signaturesIn = (path: string) =>
  [...readFixture(path).matchAll(/"thoughtSignature": ?"([^"]+)"/g)].map((match) => match[1] ?? '');

test.each([
  'gemini/tool-stream.sse',
  'gemini/tool-stream-gemini3.sse',
  'gemini/tool-stream-no-args.sse',
  'gemini/tool-stream-partial-args.sse',
])("Gemini emits the signature in %s directly before its call, marked as Gemini's", (path) => {
  const [signature, ...more] = signaturesIn(path);
  expect(more).toEqual([]);
  expect(sinkOf(path).calls.map((call) => call.signature)).toEqual([
    `gemini:${signature}`,
    ...sinkOf(path)
      .calls.slice(1)
      .map(() => undefined),
  ]);
});

test('Gemini emits the signature of a text after the text', () => {
  const path = 'gemini/text-stream-gemini3.sse';
  expect(sinkOf(path).order).toEqual(['text', 'signature', 'finish']);
  expect(sinkOf(path).signatures).toEqual(signaturesIn(path).map((own) => `gemini:${own}`));
});

test('Gemini usage in a separate chunk after the finish reason is counted', () => {
  expectTranslated(geminiUpstream, readFixture('gemini/usage-last-chunk-stream.sse'), {
    ...{ dialect: 'gemini', kind: 'chat', stream: true },
    ...{ text: 'One two', reasoning: '', tool_calls: [] },
    openai: {
      finish_reason: 'stop',
      usage: { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 },
    },
    anthropic: { stop_reason: 'end_turn' },
  });
});
