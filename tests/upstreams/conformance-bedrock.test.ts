/** Recorded answers of Bedrock, in our words and through clients of all kinds. */
import { expect, test } from 'bun:test';
import { bedrockUpstream } from '../../src/dialects/bedrock/upstream/upstream.ts';
import { RecordingSink } from '../support/recording-sink.ts';
import {
  testRecordings,
  readMessages,
  messagesOf,
  readFixture,
} from '../support/upstream-conformance.ts';

testRecordings('bedrock', bedrockUpstream, { streams: 9, broken: 2, replies: 3, errors: 8 });

const told = (path: string) => readMessages(bedrockUpstream, messagesOf(readFixture(path))).sink;

test('a signature follows its thought in one piece', () => {
  const { order, signatures } = told('bedrock/written-stream-reasoning.bin');
  expect(order).toEqual(['reasoning', 'signature', 'text', 'finish']);
  expect(signatures).toEqual(['EqQBCkYIBxgCKkDm9pQ0sVvZ3w==']);
});

test('an encrypted thought is told as Anthropic itself would send it', () => {
  const { redacted, order } = told('bedrock/converse-stream-redacted-thinking.bin');
  expect(order).toEqual(['redacted', 'text', 'finish']);
  expect(redacted).toEqual([
    expect.stringMatching(/^EtkECkgIBxABGAIqQJTfqS\/PYuAFZeOls6R8[\w+/]+=*$/),
    expect.stringMatching(/^EqADCkgIBxABGAIqQB3h5GyHJD4hocRchUq2[\w+/]+=*$/),
  ]);
  const whole = new RecordingSink();
  bedrockUpstream.readReply(readFixture('bedrock/written-reasoning.json'), whole);
  expect(whole.redacted).toEqual(['EtkECkgIBxABGAIqQA==']);
  expect(whole.order).toEqual(['reasoning', 'signature', 'redacted', 'text', 'finish']);
});

test('what is cached for an hour counts apart', () => {
  expect(told('bedrock/written-stream-cache.bin').lastUsage).toEqual({
    inputTokens: 12,
    cacheReadTokens: 1_500,
    cacheWriteTokens: 1_000,
    cacheWrite1hTokens: 2_100,
    outputTokens: 6,
    reasoningTokens: 0,
  });
});

test('the stop sequence that was met is told', () => {
  const { finishReason, stopSequence } = told('bedrock/written-stream-stop-sequence.bin');
  expect([finishReason, stopSequence]).toEqual(['stop_sequence', ', three']);
});

test.each([
  ['bedrock/written-stream-exception.bin', 'server'],
  ['bedrock/written-stream-throttled.bin', 'rate_limited'],
])('the exception in %s is of the kind %s', (path, kind) => {
  const { failure } = readMessages(bedrockUpstream, messagesOf(readFixture(path)));
  expect(failure?.kind as string).toBe(kind);
});
