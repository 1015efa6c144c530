/**
 * Tests recorded answers of an upstream dialect: their neutral content and the answers to clients
 * of all dialects. The expectations are in `fixtures/expect.json`. Client formats are parsed
 * without the gateway's code.
 */
import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { dialectNames } from '../../src/config/provider-schema.ts';
import type { FinishReason } from '../../src/core/answer.ts';
import {
  noUsage,
  promptTokens,
  totalTokens,
  type Usage,
  writtenTokens,
} from '../../src/core/usage.ts';
import { anthropicClient } from '../../src/dialects/anthropic/client-request.ts';
import { FrameDecoder } from '../../src/dialects/bedrock/upstream/frames.ts';
import type {
  ClientDialect,
  FailureKind,
  SseMessage,
  UpstreamDialect,
} from '../../src/dialects/dialect.ts';
import { Translation } from '../../src/dialects/engine.ts';
import { EventStreamReader } from '../../src/dialects/event-stream.ts';
import { readFailure } from '../../src/dialects/failure.ts';
import { openAiClient } from '../../src/dialects/openai-chat/client/stream-writer.ts';
import { canChat, dialects } from '../../src/dialects/registry.ts';
import { echoOf } from '../../src/dialects/responses/client/response-object.ts';
import { responsesClient } from '../../src/dialects/responses/client/response-writers.ts';
import {
  type ClientAnswer,
  readAnthropicAnswer,
  readOpenAiAnswer,
  readResponsesAnswer,
} from './client-answers.ts';
import { makePrompt } from './prompts.ts';
import { valueIn } from './read-result.ts';
import { RecordingSink } from './recording-sink.ts';
import { identity } from './reply-identity.ts';

/** The chat dialects, except those that only reuse another dialect's code. */
export const chatDialects = dialectNames.filter(
  (name, index) =>
    canChat(name) &&
    dialectNames.findIndex((other) => dialects[other].chat === dialects[name].chat) === index,
);

interface ExpectedUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly cached_tokens?: number;
  readonly cache_write_tokens?: number;
  readonly reasoning_tokens?: number;
}

interface ExpectedChat {
  readonly dialect: string;
  readonly kind: 'chat';
  readonly stream: boolean;
  readonly text: string;
  readonly reasoning: string;
  readonly tool_calls: readonly { readonly name: string; readonly arguments: object }[];
  readonly openai: { readonly finish_reason: string | null; readonly usage: ExpectedUsage | null };
  /** `usage` has Anthropic's fields, some of which no other format has. */
  readonly anthropic: { readonly stop_reason: string | null; readonly usage?: object };
  readonly images?: number;
  readonly error?: { readonly code?: number; readonly message: string };
}

interface ExpectedError {
  readonly dialect: string;
  readonly kind: 'error';
  /** A string if the error had a success status. */
  readonly upstream_status: number | string;
  readonly class: string;
}

const fixtures = new URL('../../fixtures/', import.meta.url);
export const readBytes = (path: string) => readFileSync(new URL(path, fixtures));
const isFramed = (path: string) => path.endsWith('.bin');

/** Returns the recording as text, with binary frames decoded to events. */
export const readFixture = (path: string) =>
  isFramed(path) ? new FrameDecoder().decode(readBytes(path)) : readBytes(path).toString('utf8');

const kindOfClass: Readonly<Record<string, FailureKind>> = {
  invalid_request: 'request',
  unsupported_parameter: 'request',
  context_length: 'request',
  content_filter: 'request',
  model_not_found: 'request',
  rate_limit: 'rate_limited',
  quota: 'quota',
  upstream_auth: 'credential',
  overloaded: 'overloaded',
  server: 'server',
  tool_use_failed: 'server',
  timeout: 'timeout',
};

interface Client {
  readonly dialect: ClientDialect;
  readonly read: (output: string, isStream: boolean) => ClientAnswer;
  readonly finishOf: (expected: ExpectedChat) => string | null;
  readonly usageOf: (counted: ExpectedUsage) => object;
}

const clients = {
  OpenAI: {
    dialect: openAiClient({ includeUsage: true }),
    read: readOpenAiAnswer,
    finishOf: (expected) => expected.openai.finish_reason,
    usageOf: ({ cached_tokens = 0, cache_write_tokens, reasoning_tokens = 0, ...sums }) => ({
      ...sums,
      prompt_tokens_details: {
        cached_tokens,
        ...(cache_write_tokens ? { cache_write_tokens } : {}),
      },
      completion_tokens_details: { reasoning_tokens },
      cost: 7,
    }),
  },
  Anthropic: {
    dialect: anthropicClient({ inputTokensEstimate: 9 }),
    read: readAnthropicAnswer,
    finishOf: (expected) => expected.anthropic.stop_reason,
    usageOf: ({ cached_tokens = 0, cache_write_tokens = 0, ...sums }) => ({
      input_tokens: sums.prompt_tokens - cached_tokens - cache_write_tokens,
      cache_read_input_tokens: cached_tokens,
      cache_creation_input_tokens: cache_write_tokens,
      output_tokens: sums.completion_tokens,
    }),
  },
  Responses: {
    dialect: responsesClient({}, echoOf({ input: 'Hello!' })),
    read: readResponsesAnswer,
    finishOf: (expected) => expected.openai.finish_reason,
    usageOf: ({ cached_tokens = 0, cache_write_tokens = 0, reasoning_tokens = 0, ...sums }) => ({
      input_tokens: sums.prompt_tokens,
      input_tokens_details: { cached_tokens, cache_write_tokens },
      output_tokens: sums.completion_tokens,
      output_tokens_details: { reasoning_tokens },
      total_tokens: sums.total_tokens,
      cost: 7,
    }),
  },
} satisfies Record<string, Client>;

type ClientName = keyof typeof clients;
const clientNames = Object.keys(clients) as ClientName[];

export function messagesOf(raw: string): SseMessage[] {
  const reader = new EventStreamReader();
  return [...reader.push(raw), ...reader.end()];
}

function byteByByte(bytes: Uint8Array, decoder: Pick<TextDecoder, 'decode'>): SseMessage[] {
  const reader = new EventStreamReader();
  const messages: SseMessage[] = [];
  for (const byte of bytes) {
    messages.push(...reader.push(decoder.decode(new Uint8Array([byte]), { stream: true })));
  }
  return [...messages, ...reader.push(decoder.decode()), ...reader.end()];
}

const fixtureByteByByte = (path: string) =>
  byteByByte(readBytes(path), isFramed(path) ? new FrameDecoder() : new TextDecoder());

/** Reads a stream into a sink, up to the first failure. */
export function readMessages(upstream: UpstreamDialect, messages: readonly SseMessage[]) {
  const sink = new RecordingSink();
  const reader = upstream.readStream(sink, []);
  for (const message of messages) {
    const failure = reader.push(message);
    if (failure) return { sink, failure, finished: reader.finished };
  }
  return { sink, failure: undefined, finished: reader.finished };
}

export function expectUsage(usage: Usage | undefined, expected: ExpectedUsage | null): void {
  if (expected === null) {
    expect(usage).toBeUndefined();
    return;
  }
  if (!usage) throw new Error('The stream reported no usage.');
  expect({
    prompt_tokens: promptTokens(usage),
    completion_tokens: usage.outputTokens,
    total_tokens: totalTokens(usage),
    cached_tokens: usage.cacheReadTokens,
    cache_write_tokens: writtenTokens(usage),
    reasoning_tokens: usage.reasoningTokens,
  }).toEqual({ cached_tokens: 0, cache_write_tokens: 0, reasoning_tokens: 0, ...expected });
}

function expectCalls(
  calls: readonly { id: string; name: string; arguments: string }[],
  expected: ExpectedChat,
) {
  const read = calls.map(({ name, arguments: json }) => ({ name, arguments: JSON.parse(json) }));
  expect(read).toEqual([...expected.tool_calls]);
  for (const { id } of calls) expect(id).toMatch(/^\S{6,64}$/);
  expect(new Set(calls.map(({ id }) => id)).size).toBe(calls.length);
}

/** Finish reasons that OpenAI's format doesn't have, with the reasons sent instead. */
const openAiFinishReasons: ReadonlyMap<FinishReason | null, FinishReason> = new Map([
  ['stop_sequence', 'stop'],
  ['pause', 'stop'],
  ['context', 'length'],
]);

function expectAnswer(sink: RecordingSink, expected: ExpectedChat): void {
  const finish = openAiFinishReasons.get(sink.finishReason) ?? sink.finishReason;
  expect({ text: sink.fullText, reasoning: sink.reasoningText, finish }).toEqual({
    text: expected.text,
    reasoning: expected.reasoning,
    finish: expected.openai.finish_reason as typeof finish,
  });
  expectCalls(sink.calls, expected);
  expect(sink.images.length).toBe(expected.images ?? 0);
  expectUsage(sink.lastUsage, expected.openai.usage);
}

/** Expects a client to receive this answer, with a cost of 7 credits. */
export function expectClientAnswer(
  name: ClientName,
  output: string,
  isStream: boolean,
  expected: ExpectedChat,
): void {
  const client: Client = clients[name];
  const { text, reasoning, finish, images, calls, usage } = client.read(output, isStream);
  expect({ text, reasoning, finish, images }).toEqual({
    text: expected.text,
    reasoning: expected.reasoning,
    finish: client.finishOf(expected),
    images: expected.images ?? 0,
  });
  expectCalls(calls, expected);
  const counted = expected.openai.usage;
  if (counted) expect(usage).toMatchObject({ ...client.usageOf(counted) });
}

/**
 * Returns the upstream's IDs and model names in an answer, except IDs of reasoning (part of their
 * signatures) and of tool calls (which clients send back).
 */
function namesIn(raw: string): string[] {
  const ofCalls = /"(?:functionCall": ?|tool_calls": ?\[)\{[^{}]*"id": ?"[^"]+"/g;
  const found = raw
    .replaceAll(ofCalls, '')
    .matchAll(/"(?:id|responseId|request_id|modelVersion|model)": ?"([^"]{6,})"/g);
  const names = new Set([...found].map((match) => match[1] ?? ''));
  return [...names].filter((name) => !/^(?:call|rs|toolu|srvtoolu)_/.test(name));
}

type Case = { readonly path: string; readonly expected: ExpectedChat };

function readEntries(dialectName: string): [string, ExpectedChat | ExpectedError][] {
  const all = JSON.parse(readFixture('expect.json')) as Record<
    string,
    ExpectedChat | ExpectedError
  >;
  return Object.entries(all).filter(([, { dialect }]) => dialect === dialectName);
}

export function readExpectations(dialectName: string): Case[] {
  return readEntries(dialectName).flatMap(([path, expected]) =>
    expected.kind === 'chat' ? [{ path, expected }] : [],
  );
}

/** Returns whether the answer has finished. Bedrock and OpenAI report usage only after that. */
const hasEnded = (messages: readonly SseMessage[]) =>
  messages.some(({ event, data }) => event === 'messageStop' || /"finish_reason": ?"/.test(data));

/** Expects the same answer in full and byte by byte, and that it completes at the last message. */
export function expectStream(
  upstream: UpstreamDialect,
  raw: string,
  expected: ExpectedChat,
  slowly = byteByByte(new TextEncoder().encode(raw), new TextDecoder()),
): void {
  const messages = messagesOf(raw);
  const { sink: full, failure, finished } = readMessages(upstream, messages);
  expect({ failure, finished }).toEqual({ failure: undefined, finished: true });
  expectAnswer(full, expected);
  expect(slowly).toEqual(messages);
  expectAnswer(readMessages(upstream, slowly).sink, expected);
  for (let length = 0; length < messages.length; length += 1) {
    const before = messages.slice(0, length);
    const partial = readMessages(upstream, before);
    const ended = hasEnded(before);
    expect({ length, finished: partial.finished, finish: partial.sink.finishReason }).toEqual({
      length,
      finished: ended,
      finish: ended ? full.finishReason : null,
    });
    expect(full.fullText).toStartWith(partial.sink.fullText);
  }
}

/** Expects the answers to clients of all dialects, without names of the upstream. */
export function expectTranslated(
  upstream: UpstreamDialect,
  raw: string,
  expected: ExpectedChat,
): void {
  for (const name of clientNames) {
    const client = clients[name].dialect;
    const transform = new Translation(makePrompt(), client, upstream).transformStream(identity);
    const output = messagesOf(raw).map((message) => transform.push(message));
    expect(transform.finished).toBe(true);
    expect(transform.metrics.finishReason).toBe(expected.openai.finish_reason ?? undefined);
    expectUsage(transform.metrics.usage, expected.openai.usage);
    const end = transform.close({ usage: transform.metrics.usage ?? noUsage, costCredits: 7 });
    const text = output.join('') + end;
    expectClientAnswer(name, text, true, expected);
    expectNoUpstreamNames(raw, text, expected);
  }
}

function expectTranslatedReply(
  upstream: UpstreamDialect,
  raw: string,
  expected: ExpectedChat,
): void {
  for (const name of clientNames) {
    const client = clients[name].dialect;
    const translation = new Translation(makePrompt(), client, upstream);
    const reply = valueIn(translation.transformReply(raw, identity));
    expect(reply.metrics.finishReason).toBe(expected.openai.finish_reason ?? undefined);
    expectUsage(reply.metrics.usage, expected.openai.usage);
    const text = reply.write({ usage: reply.metrics.usage ?? noUsage, costCredits: 7 });
    expectClientAnswer(name, text, false, expected);
    expectNoUpstreamNames(raw, text, expected);
  }
}

/** Expects no ID or name of the upstream in a client's answer. */
export function expectNoUpstreamNames(
  raw: string,
  output: string,
  { dialect }: ExpectedChat,
): void {
  const names = namesIn(raw);
  // Bedrock's answers contain no ID and no model name.
  if (dialect !== 'bedrock') expect(names.length).toBeGreaterThan(0);
  expect(names.filter((name) => output.includes(name))).toEqual([]);
}

type Counts = Readonly<Record<'streams' | 'broken' | 'replies' | 'errors', number>>;

/** Tests all recordings of a dialect. `counts` are the minimum numbers of recordings. */
export function testRecordings(
  dialectName: string,
  upstream: UpstreamDialect,
  counts: Counts,
): void {
  const chats = readExpectations(dialectName);
  const streams = chats.filter(({ expected }) => expected.stream && !expected.error);
  const broken = chats.filter(({ expected }) => expected.stream && expected.error);
  const replies = chats.filter(({ expected }) => !expected.stream);
  const errors = readErrors(dialectName);

  test(`${dialectName} has all its recordings`, () => {
    const found = { streams, broken, replies, errors };
    for (const [kind, cases] of Object.entries(found)) {
      expect(cases.length, kind).toBeGreaterThanOrEqual(counts[kind as keyof Counts]);
    }
  });

  describe(`a recorded ${dialectName} stream`, () => {
    for (const { path, expected } of streams) {
      test(`${path} is read in full and byte by byte, and is incomplete when truncated`, () => {
        expectStream(upstream, readFixture(path), expected, fixtureByteByByte(path));
      });
      test(`${path} is translated for clients of all dialects`, () => {
        expectTranslated(upstream, readFixture(path), expected);
      });
    }
    for (const { path, expected } of broken) {
      test(`${path} is read as a failure`, () => expectBroken(upstream, path, expected));
    }
  });

  describe(`a recorded ${dialectName} response`, () => {
    for (const { path, expected } of replies) {
      test(`${path} is read in full, and is malformed when truncated`, () => {
        expectReply(upstream, readFixture(path).trimEnd(), expected);
      });
      test(`${path} is translated for clients of all dialects`, () => {
        expectTranslatedReply(upstream, readFixture(path), expected);
      });
    }
  });

  testRecordedErrors(dialectName);
}

function readErrors(dialectName: string) {
  return readEntries(dialectName).flatMap(([path, expected]) => {
    if (expected.kind !== 'error' || typeof expected.upstream_status !== 'number') return [];
    return [{ path, expected, status: expected.upstream_status }];
  });
}

export function testRecordedErrors(dialectName: string): void {
  test.each(readErrors(dialectName))(
    'readFailure classifies $path as $expected.class',
    ({ path, expected, status }) => {
      const failure = readFailure(status, readFixture(path), new Headers(), 0);
      expect(failure.kind).toBe(kindOfClass[expected.class] ?? 'malformed');
      expect(failure.status).toBe(status);
      expect(failure.message).toMatch(/^\w[^{}]*$/);
    },
  );
}

function expectBroken(upstream: UpstreamDialect, path: string, expected: ExpectedChat): void {
  for (const messages of [messagesOf(readFixture(path)), fixtureByteByByte(path)]) {
    const { sink, failure, finished } = readMessages(upstream, messages);
    expect(failure?.message).toBe(expected.error?.message ?? '');
    // OpenRouter reports an error after the finish reason.
    const finish = expected.openai.finish_reason;
    expect([finished, sink.finishReason as string | null]).toEqual([finish !== null, finish]);
    expect(sink.fullText).toBe(expected.text);
  }
}

function expectReply(upstream: UpstreamDialect, raw: string, expected: ExpectedChat): void {
  const sink = new RecordingSink();
  expect(upstream.readReply(raw, sink)).toBeUndefined();
  expectAnswer(sink, expected);
  for (const length of [0, 1, raw.length >> 1, raw.length - 1]) {
    const truncated = new RecordingSink();
    expect(upstream.readReply(raw.slice(0, length), truncated)?.kind).toBe('malformed');
    expect(truncated.order).toEqual([]);
  }
}
