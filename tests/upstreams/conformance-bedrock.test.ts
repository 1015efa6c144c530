/** Recorded answers from Bedrock, translated for every client. */
import { expect, test } from 'bun:test';
import { bedrockUpstream } from '../../src/dialects/bedrock/upstream/upstream.ts';
import { RecordingSink } from '../support/recording-sink.ts';
import {
  messagesOf,
  readFixture,
  readMessages,
  testRecordings,
} from '../support/upstream-conformance.ts';

testRecordings('bedrock', bedrockUpstream, { streams: 9, broken: 2, replies: 3, errors: 8 });

const sinkOf = (path: string) => readMessages(bedrockUpstream, messagesOf(readFixture(path))).sink;

test('Bedrock emits a signature once, after its reasoning', () => {
  const { order, signatures } = sinkOf('bedrock/written-stream-reasoning.bin');
  expect(order).toEqual(['reasoning', 'signature', 'text', 'finish']);
  expect(signatures).toEqual(['EqQBCkYIBxgCKkDm9pQ0sVvZ3w==']);
});

test('Bedrock emits redacted reasoning as Anthropic sends it', () => {
  const { redacted, order } = sinkOf('bedrock/converse-stream-redacted-thinking.bin');
  expect(order).toEqual(['redacted', 'text', 'finish']);
  expect(redacted).toEqual([
    expect.stringMatching(/^EtkECkgIBxABGAIqQJTfqS\/PYuAFZeOls6R8[\w+/]+=*$/),
    expect.stringMatching(/^EqADCkgIBxABGAIqQB3h5GyHJD4hocRchUq2[\w+/]+=*$/),
  ]);
  const reply = new RecordingSink();
  bedrockUpstream.readReply(readFixture('bedrock/written-reasoning.json'), reply);
  expect(reply.redacted).toEqual(['EtkECkgIBxABGAIqQA==']);
  expect(reply.order).toEqual(['reasoning', 'signature', 'redacted', 'text', 'finish']);
});

test('Bedrock counts 1-hour cache writes separately', () => {
  expect(sinkOf('bedrock/written-stream-cache.bin').lastUsage).toEqual({
    inputTokens: 12,
    cacheReadTokens: 1_500,
    cacheWriteTokens: 1_000,
    cacheWrite1hTokens: 2_100,
    outputTokens: 6,
    reasoningTokens: 0,
  });
});

test('Bedrock streams report the matched stop sequence', () => {
  const { finishReason, stopSequence } = sinkOf('bedrock/written-stream-stop-sequence.bin');
  expect([finishReason, stopSequence]).toEqual(['stop_sequence', ', three']);
});

test.each([
  ['bedrock/written-stream-exception.bin', 'server'],
  ['bedrock/written-stream-throttled.bin', 'rate_limited'],
])('Bedrock classifies the exception in %s as %s', (path, kind) => {
  const { failure } = readMessages(bedrockUpstream, messagesOf(readFixture(path)));
  expect(failure?.kind as string).toBe(kind);
});
