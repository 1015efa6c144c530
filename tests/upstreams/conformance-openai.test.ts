/**
 * Recorded answers from OpenAI-style providers, translated and forwarded to OpenAI clients.
 */
import { describe, expect, test } from 'bun:test';
import { noUsage } from '../../src/core/usage.ts';
import type { SseMessage } from '../../src/dialects/dialect.ts';
import { readReply } from '../../src/dialects/openai-chat/passthrough/reply.ts';
import { OpenAiPassThrough } from '../../src/dialects/openai-chat/passthrough/stream.ts';
import { openAiUpstream } from '../../src/dialects/openai-chat/upstream/reader.ts';
import { failureIn, valueIn } from '../support/read-result.ts';
import { RecordingSink } from '../support/recording-sink.ts';
import { identity } from '../support/reply-identity.ts';
import { checkOpenAiStream } from '../support/stream-checks.ts';
import {
  expectClientAnswer,
  expectNoUpstreamNames,
  expectUsage,
  messagesOf,
  readExpectations,
  readFixture,
  testRecordings,
} from '../support/upstream-conformance.ts';

testRecordings('openai', openAiUpstream, { streams: 13, broken: 1, replies: 15, errors: 19 });

const { id, model, provider, created } = identity;
const chats = readExpectations('openai');
const streams = chats.filter(({ expected }) => expected.stream);
const replies = chats.filter(({ expected }) => !expected.stream);

function relay(messages: readonly SseMessage[]) {
  const stream = new OpenAiPassThrough(identity, { includeUsage: true });
  const output = messages.map((message) => stream.push(message)).join('');
  return { stream, output };
}

describe('OpenAiPassThrough', () => {
  test.each(streams)('forwards $path completely', ({ path, expected }) => {
    const raw = readFixture(path);
    const { stream, output } = relay(messagesOf(raw));
    expect([stream.started, stream.finished]).toEqual([true, true]);
    const { finishReason, failure, usage = noUsage } = stream.metrics;
    expect(finishReason ?? null).toBe(expected.openai.finish_reason);
    const { code: status, message } = expected.error ?? {};
    expect([failure?.status, failure?.message]).toEqual([status, message]);
    expectUsage(usage, expected.openai.usage);
    expect(output).not.toContain('[DONE]');
    const text = output + stream.close({ usage, costCredits: 7 });
    expect(text).toEndWith('data: [DONE]\n\n');
    expect(checkOpenAiStream(text)).toMatchObject({ id, model });
    expectClientAnswer('OpenAI', text, true, expected);
    expectNoUpstreamNames(raw, text, expected);
  });

  test.each(streams)("doesn't complete $path if it ends before its finish reason", ({ path }) => {
    const messages = messagesOf(readFixture(path));
    const { output: complete } = relay(messages);
    for (let length = 0; length < messages.length; length += 1) {
      const before = messages.slice(0, length);
      const { stream, output } = relay(before);
      const hasFinish = before.some(({ data }) => /"finish_reason": ?"/.test(data));
      expect(stream.finished).toBe(hasFinish);
      expect(stream.metrics.finishReason !== undefined).toBe(hasFinish);
      expect(complete).toStartWith(output);
    }
  });
});

test.each(replies)('readReply forwards $path completely', ({ path, expected }) => {
  const raw = readFixture(path);
  const reply = valueIn(readReply(raw, identity));
  const { usage = noUsage, finishReason } = reply.metrics;
  expect(finishReason ?? null).toBe(expected.openai.finish_reason);
  expectUsage(usage, expected.openai.usage);
  const text = reply.write({ usage, costCredits: 7 });
  const names = { object: 'chat.completion', id, model, provider, created };
  expect(JSON.parse(text)).toMatchObject(names);
  expectClientAnswer('OpenAI', text, false, expected);
  expectNoUpstreamNames(raw, text, expected);
});

test('an error with status 200 is classified by its body', () => {
  const body = readFixture('azure/prompt-filter-error.json');
  for (const failure of [
    failureIn(readReply(body, identity)),
    openAiUpstream.readReply(body, new RecordingSink()),
  ]) {
    expect(failure).toMatchObject({ kind: 'request', status: 400 });
    expect(failure).toMatchObject({ message: expect.stringMatching(/^[A-Z][^{}<>]+$/) });
  }
});
