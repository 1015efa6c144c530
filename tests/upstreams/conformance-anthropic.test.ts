/**
 * Recorded answers from Anthropic, translated and forwarded to Anthropic clients.
 * `stream-checks.ts` validates every stream.
 */
import { describe, expect, test } from 'bun:test';
import { GatewayError } from '../../src/core/errors.ts';
import { isObject } from '../../src/core/json.ts';
import { noUsage } from '../../src/core/usage.ts';
import { anthropicClient } from '../../src/dialects/anthropic/client-request.ts';
import { readReply } from '../../src/dialects/anthropic/passthrough/reply.ts';
import { AnthropicPassThrough } from '../../src/dialects/anthropic/passthrough/stream.ts';
import { anthropicUpstream } from '../../src/dialects/anthropic/upstream/reader.ts';
import type { SseMessage, StreamTransform } from '../../src/dialects/dialect.ts';
import { Translation } from '../../src/dialects/engine.ts';
import { openAiClient } from '../../src/dialects/openai-chat/client/stream-writer.ts';
import { openAiUpstream } from '../../src/dialects/openai-chat/upstream/reader.ts';
import { makePrompt } from '../support/prompts.ts';
import { valueIn } from '../support/read-result.ts';
import { RecordingSink } from '../support/recording-sink.ts';
import { identity } from '../support/reply-identity.ts';
import { checkAnthropicStream, checkOpenAiStream } from '../support/stream-checks.ts';
import {
  messagesOf,
  readExpectations,
  readFixture,
  readMessages,
  testRecordings,
} from '../support/upstream-conformance.ts';

testRecordings('anthropic', anthropicUpstream, { streams: 32, broken: 3, replies: 18, errors: 16 });

const chats = readExpectations('anthropic');
const streams = chats.filter(({ expected }) => expected.stream);
const completeStreams = streams.filter(({ expected }) => !expected.error);
const replies = chats.filter(({ expected }) => !expected.stream);
const interrupted = new GatewayError('upstream_error', 'The stream was interrupted.');

function forwardAll(relay: StreamTransform, messages: readonly SseMessage[]): string {
  const opening = messages.map((message) => relay.push(message)).join('');
  expect(relay.finished).toBe(true);
  return opening + relay.close({ usage: relay.metrics.usage ?? noUsage, costCredits: 7 });
}

/** Returns the data of the block events in a recording. The output must contain it unchanged. */
function dataIn(raw: string): string[] {
  const data = [...raw.matchAll(/^data: ?(.*)$/gm)].map((match) => match[1] ?? '');
  return data.filter((line) => /"content_block_(?:start|delta|stop)"/.test(line));
}

describe('AnthropicPassThrough', () => {
  test.each(completeStreams)('forwards $path completely', ({ path, expected }) => {
    const raw = readFixture(path);
    const output = forwardAll(new AnthropicPassThrough(identity, 9), messagesOf(raw));
    const { text, reasoning: thinking, tool_calls: calls, anthropic } = expected;
    const seen = checkAnthropicStream(output);
    expect(seen).toMatchObject({
      ...{ ended: 'complete', id: 'msg_0123456789abcdef', model: identity.model },
      ...{ text, thinking, stopReason: anthropic.stop_reason, usage: anthropic.usage },
    });
    const tools = seen.tools.map(({ name, input }) => ({ name, arguments: input }));
    expect(tools).toEqual([...calls] as typeof tools);
    expect(dataIn(raw).filter((line) => !output.includes(`data: ${line}\n\n`))).toEqual([]);
    const [, model = '', id = ''] = /"model":"([^"]+)","id":"([^"]+)"/.exec(raw) ?? [];
    expect(model).not.toBe('');
    expect([output.includes(model), output.includes(id)]).toEqual([false, false]);
  });

  test.each(streams)("doesn't complete $path if it ends early, after any event", ({ path }) => {
    const messages = messagesOf(readFixture(path));
    for (let length = 0; length < messages.length; length += 1) {
      const relay = new AnthropicPassThrough(identity, 9);
      const parts = messages.slice(0, length).map((message) => relay.push(message));
      expect(relay.finished).toBe(false);
      const seen = checkAnthropicStream(parts.join('') + relay.fail(interrupted));
      expect(seen).toMatchObject({ ended: 'error', error: { type: 'api_error' } });
    }
  });

  test("classifies an error event and doesn't forward it", () => {
    const relay = new AnthropicPassThrough(identity, 9);
    const raw = readFixture('anthropic/midstream-overloaded-stream.sse');
    const parts = messagesOf(raw).map((message) => relay.push(message));
    expect(relay.metrics.failure).toMatchObject({ kind: 'overloaded', message: 'Overloaded' });
    expect(relay.finished).toBe(false);
    expect(checkAnthropicStream(parts.join(''))).toMatchObject({
      ended: 'truncated',
      text: 'Partial',
    });
  });
});

describe('readReply', () => {
  test.each(replies)(
    'forwards $path and replaces only its id and model name',
    ({ path, expected }) => {
      const raw = readFixture(path);
      const reply = valueIn(readReply(raw, identity));
      const { usage, finishReason } = reply.metrics;
      expect(finishReason ?? null).toBe(expected.openai.finish_reason);
      const output: unknown = JSON.parse(reply.write({ usage: usage ?? noUsage, costCredits: 7 }));
      const recorded: unknown = JSON.parse(raw);
      if (!isObject(recorded)) throw new Error("The recording isn't an object.");
      const names = { id: 'msg_0123456789abcdef', model: identity.model };
      const renamed: unknown = JSON.parse(
        JSON.stringify({ ...recorded, ...names, content: [] }).replaceAll(
          `"${String(recorded.model)}"`,
          `"${identity.model}"`,
        ),
      );
      expect(output).toEqual({ ...(renamed as object), content: recorded.content });
      expect(output).toMatchObject({ usage: expected.anthropic.usage });
    },
  );
});

test('AnthropicPassThrough forwards unknown events', () => {
  const raw = readFixture('anthropic/unknown-events-stream.sse');
  const seen = readMessages(anthropicUpstream, messagesOf(raw));
  expect([seen.failure, seen.finished, seen.sink.fullText]).toEqual([
    undefined,
    true,
    'Known words.',
  ]);
  const output = forwardAll(new AnthropicPassThrough(identity, 9), messagesOf(raw));
  for (const type of ['session_notice', 'content_block_hint', 'usage_preview']) {
    expect(output).toContain(`event: ${type}\ndata: {"type":"${type}",`);
  }
});

test('AnthropicPassThrough keeps earlier counts if the last usage report has null', () => {
  const relay = new AnthropicPassThrough(identity, 9);
  for (const message of messagesOf(readFixture('anthropic/usage-null-stream.sse'))) {
    relay.push(message);
  }
  expect(relay.metrics).toMatchObject({
    usage: { inputTokens: 42, cacheReadTokens: 7, cacheWriteTokens: 0, outputTokens: 5 },
    isEstimate: false,
  });
});

test('Anthropic responses report the matched stop sequence', () => {
  const sink = new RecordingSink();
  expect(anthropicUpstream.readReply(readFixture('anthropic/stop-sequence.json'), sink)).toBe(
    undefined,
  );
  expect([sink.finishReason, sink.stopSequence]).toEqual(['stop_sequence', 'Paris']);
});

test('the Anthropic reader emits each source of a web search with the range of the text that cites it', () => {
  const sink = new RecordingSink();
  const reader = anthropicUpstream.readStream(sink, []);
  const raw = readFixture('anthropic/web-search-stream.sse');
  for (const message of messagesOf(raw)) reader.push(message);
  const cited = [...raw.matchAll(/"citations_delta".*?"url":"([^"]+)"/g)].map((match) => match[1]);
  expect(cited.length).toBeGreaterThan(0);
  expect(sink.citations.map(({ url }) => url)).toEqual(cited as string[]);
  for (const { range } of sink.citations) {
    expect(sink.fullText.slice(range?.start, range?.end).trim()).not.toBe('');
  }
});

test.each(readExpectations('openai').filter(({ expected }) => expected.stream))(
  'a translation of $path for an Anthropic client is not complete if the stream ends early',
  ({ path }) => {
    const messages = messagesOf(readFixture(path));
    const client = anthropicClient({ inputTokensEstimate: 9 });
    for (let length = 0; length < messages.length; length += 1) {
      const before = messages.slice(0, length);
      const relay = new Translation(makePrompt(), client, openAiUpstream).transformStream(identity);
      const output = before.map((message) => relay.push(message)).join('');
      const hasFinish = before.some(({ data }) => /"finish_reason": ?"/.test(data));
      expect(relay.finished).toBe(hasFinish);
      expect(checkAnthropicStream(output).ended).toBe('truncated');
      expect(checkAnthropicStream(output + relay.fail(interrupted)).ended).toBe('error');
    }
  },
);

test('a translation for an OpenAI client keeps the signature of the thinking', () => {
  const raw = readFixture('anthropic/thinking-stream.sse');
  const [, signature = ''] = /"signature_delta","signature":"([^"]+)"/.exec(raw) ?? [];
  const client = openAiClient({ includeUsage: false });
  const relay = new Translation(makePrompt(), client, anthropicUpstream).transformStream(identity);
  const seen = checkOpenAiStream(forwardAll(relay, messagesOf(raw)));
  expect(signature).not.toBe('');
  expect(seen.details.map((detail) => detail.signature ?? '').join('')).toBe(signature);
});
