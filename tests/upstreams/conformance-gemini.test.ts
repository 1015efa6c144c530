/** Recorded answers of Gemini, in our words and through clients of both kinds. */
import { expect, test } from 'bun:test';
import { geminiUpstream } from '../../src/dialects/gemini/upstream/upstream.ts';
import {
  testRecordings,
  expectTranslated,
  readMessages,
  messagesOf,
  readFixture,
} from '../support/upstream-conformance.ts';

testRecordings('gemini', geminiUpstream, { streams: 24, broken: 5, replies: 11, errors: 10 });

const told = (path: string) => readMessages(geminiUpstream, messagesOf(readFixture(path))).sink;

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

test('usage that comes alone, behind the finish, counts', () => {
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

test('older models end every chunk with STOP, and clients hear all of them and one end', () => {
  const chunk = (text: string, candidatesTokenCount: number) => ({
    candidates: [{ content: { parts: [{ text }], role: 'model' }, finishReason: 'STOP', index: 0 }],
    usageMetadata: { promptTokenCount: 4, candidatesTokenCount },
    modelVersion: 'gemini-1.5-flash-002',
  });
  const chunks = [chunk('1', 1), chunk('\n2', 3), chunk('\n3\n', 6)];
  const raw = chunks.map((each) => `data: ${JSON.stringify(each)}\r\n\r\n`).join('');
  expectTranslated(geminiUpstream, raw, {
    ...{ dialect: 'gemini', kind: 'chat', stream: true },
    ...{ text: '1\n2\n3\n', reasoning: '', tool_calls: [] },
    openai: {
      finish_reason: 'stop',
      usage: { prompt_tokens: 4, completion_tokens: 6, total_tokens: 10 },
    },
    anthropic: { stop_reason: 'end_turn' },
  });
});
