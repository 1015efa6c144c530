/**
 * Recorded answers of one upstream dialect: what they say in our words, and what clients of all
 * kinds see of them. The expectations come from `fixtures/expect.json`; the readers of the clients'
 * words are the test's own and share no code with the gateway.
 */
import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import type { FinishReason } from '../../src/core/answer.ts';
import {
  noUsage,
  promptTokens,
  totalTokens,
  type Usage,
  writtenTokens,
} from '../../src/core/usage.ts';
import { anthropicClient } from '../../src/dialects/anthropic/client.ts';
import { FrameDecoder } from '../../src/dialects/bedrock/frames.ts';
import type {
  ClientDialect,
  FailureKind,
  SseMessage,
  UpstreamDialect,
} from '../../src/dialects/dialect.ts';
import { EventStreamReader } from '../../src/dialects/event-stream.ts';
import { readFailure } from '../../src/dialects/failure.ts';
import { openAiClient } from '../../src/dialects/openai/client.ts';
import { responsesClient } from '../../src/dialects/responses/client.ts';
import { echoOf } from '../../src/dialects/responses/response-object.ts';
import { translate } from '../../src/dialects/translation.ts';
import { question } from './question.ts';
import { type SeenAnswer, seeAnthropic, seeOpenAi, seeResponses } from './seen-answer.ts';
import { ToldAnswer } from './told-answer.ts';

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
  readonly anthropic: { readonly stop_reason: string | null };
  readonly images?: number;
  readonly error?: { readonly message: string };
}

interface ExpectedError {
  readonly dialect: string;
  readonly kind: 'error';
  readonly upstream_status: number;
  readonly class: string;
}

const fixtures = new URL('../../fixtures/', import.meta.url);
export const readBytes = (path: string) => readFileSync(new URL(path, fixtures));
const isFramed = (path: string) => path.endsWith('.bin');

/** As text; frames as the events that they stand for. */
export const readFixture = (path: string) =>
  isFramed(path) ? new FrameDecoder().decode(readBytes(path)) : readBytes(path).toString('utf8');

const kindOfClass: Readonly<Record<string, FailureKind>> = {
  invalid_request: 'request',
  context_length: 'request',
  model_not_found: 'request',
  rate_limit: 'rate_limited',
  quota: 'quota',
  upstream_auth: 'credential',
  overloaded: 'overloaded',
  server: 'server',
  timeout: 'timeout',
};

const identity = {
  id: 'chatcmpl-feedfacefeedface',
  model: 'acme/chat-large',
  provider: 'acme',
  created: 1_800_000_000,
};

interface Client {
  readonly name: string;
  readonly dialect: ClientDialect;
  readonly see: (output: string, isStream: boolean) => SeenAnswer;
  readonly finishOf: (expected: ExpectedChat) => string | null;
}

const clients: readonly Client[] = [
  {
    name: 'OpenAI',
    dialect: openAiClient({ includeUsage: true }),
    see: seeOpenAi,
    finishOf: (expected) => expected.openai.finish_reason,
  },
  {
    name: 'Anthropic',
    dialect: anthropicClient({ inputTokensEstimate: 9 }),
    see: seeAnthropic,
    finishOf: (expected) => expected.anthropic.stop_reason,
  },
  {
    name: 'Responses',
    dialect: responsesClient({}, echoOf({ input: 'Hello!' })),
    see: seeResponses,
    finishOf: (expected) => expected.openai.finish_reason,
  },
];

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

/** What a listener hears of a stream, up to the first failure. */
export function hear(upstream: UpstreamDialect, messages: readonly SseMessage[]) {
  const told = new ToldAnswer();
  const reader = upstream.readStream(told);
  for (const message of messages) {
    const failure = reader.push(message);
    if (failure) return { told, failure, finished: reader.finished };
  }
  return { told, failure: undefined, finished: reader.finished };
}

function expectUsage(usage: Usage | undefined, expected: ExpectedUsage | null): void {
  if (expected === null) {
    expect(usage).toBeUndefined();
    return;
  }
  if (!usage) throw new Error('no usage was told');
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

/** OpenAI has fewer words for an end than others. */
const wordsOfOpenAi: ReadonlyMap<FinishReason | null, FinishReason> = new Map([
  ['stop_sequence', 'stop'],
  ['pause', 'stop'],
  ['context', 'length'],
]);

function expectTold(told: ToldAnswer, expected: ExpectedChat): void {
  const finish = wordsOfOpenAi.get(told.finishReason) ?? told.finishReason;
  expect({ text: told.said, reasoning: told.thought, finish }).toEqual({
    text: expected.text,
    reasoning: expected.reasoning,
    finish: expected.openai.finish_reason as typeof finish,
  });
  expectCalls(told.calls, expected);
  expect(told.images.length).toBe(expected.images ?? 0);
  expectUsage(told.lastUsage, expected.openai.usage);
}

function expectSeen(seen: SeenAnswer, client: Client, expected: ExpectedChat): void {
  const { text, reasoning, finish, images } = seen;
  expect({ text, reasoning, finish, images }).toEqual({
    text: expected.text,
    reasoning: expected.reasoning,
    finish: client.finishOf(expected),
    images: expected.images ?? 0,
  });
  expectCalls(seen.calls, expected);
}

/**
 * Names by which the upstream knows the answer; those of thoughts are part of their proofs, and
 * those of calls are the client's to answer.
 */
function namesIn(raw: string): string[] {
  const answered = raw.replaceAll(/"functionCall": ?\{[^{}]*"id": ?"[^"]+"/g, '');
  const found = answered.matchAll(
    /"(?:id|responseId|modelVersion|model)": ?"((?!call_|rs_|toolu_|srvtoolu_)[^"]{6,})"/g,
  );
  return [...new Set([...found].map((match) => match[1] ?? ''))];
}

type Case = { readonly path: string; readonly expected: ExpectedChat };
type ErrorCase = { readonly path: string; readonly expected: ExpectedError };

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

/** Bedrock says what it used after the end; of the others nothing follows it. */
const hasEnded = (messages: readonly SseMessage[]) =>
  messages.some(({ event }) => event === 'messageStop');

/** A stream is told whole and byte by byte alike, and is not complete before its last message. */
export function expectStream(
  upstream: UpstreamDialect,
  raw: string,
  expected: ExpectedChat,
  slowly = byteByByte(new TextEncoder().encode(raw), new TextDecoder()),
): void {
  const messages = messagesOf(raw);
  const { told: whole, failure, finished } = hear(upstream, messages);
  expect({ failure, finished }).toEqual({ failure: undefined, finished: true });
  expectTold(whole, expected);
  expect(slowly).toEqual(messages);
  expectTold(hear(upstream, slowly).told, expected);
  for (let length = 0; length < messages.length; length += 1) {
    const before = messages.slice(0, length);
    const cut = hear(upstream, before);
    const ended = hasEnded(before);
    expect({ length, finished: cut.finished, finish: cut.told.finishReason }).toEqual({
      length,
      finished: ended,
      finish: ended ? whole.finishReason : null,
    });
    expect(whole.said).toStartWith(cut.told.said);
  }
}

/** What clients of all kinds see of a stream, which does not name its upstream. */
export function expectCrossed(
  upstream: UpstreamDialect,
  raw: string,
  expected: ExpectedChat,
): void {
  for (const client of clients) {
    const relay = translate(question(), client.dialect, upstream).relayStream(identity);
    const output = messagesOf(raw).map((message) => relay.push(message));
    expect(relay.finished).toBe(true);
    expect(relay.facts.finishReason).toBe(expected.openai.finish_reason ?? undefined);
    expectUsage(relay.facts.usage, expected.openai.usage);
    const end = relay.close({ usage: relay.facts.usage ?? noUsage, costCredits: 7 });
    const text = output.join('') + end;
    expectSeen(client.see(text, true), client, expected);
    expectNameless(raw, text, expected);
  }
}

function expectCrossedReply(upstream: UpstreamDialect, raw: string, expected: ExpectedChat): void {
  for (const client of clients) {
    const reply = translate(question(), client.dialect, upstream).relayReply(raw, identity);
    if (!('write' in reply)) throw new Error(reply.message);
    expect(reply.facts.finishReason).toBe(expected.openai.finish_reason ?? undefined);
    expectUsage(reply.facts.usage, expected.openai.usage);
    const text = reply.write({ usage: reply.facts.usage ?? noUsage, costCredits: 7 });
    expectSeen(client.see(text, false), client, expected);
    expectNameless(raw, text, expected);
  }
}

function expectNameless(raw: string, output: string, { dialect }: ExpectedChat): void {
  const names = namesIn(raw);
  // Bedrock's answers name neither themselves nor their model.
  if (dialect !== 'bedrock') expect(names.length).toBeGreaterThan(0);
  expect(names.filter((name) => output.includes(name))).toEqual([]);
}

/** `counts` are how many recordings there have to be of each kind. */
export function conform(dialectName: string, upstream: UpstreamDialect, counts: object): void {
  const chats = readExpectations(dialectName);
  const streams = chats.filter(({ expected }) => expected.stream && !expected.error);
  const broken = chats.filter(({ expected }) => expected.stream && expected.error);
  const replies = chats.filter(({ expected }) => !expected.stream);
  const errors = readErrors(dialectName);

  test('the recordings are all here', () => {
    const found = { streams, broken, replies, errors };
    const sizes = Object.entries(found).map(([kind, cases]) => [kind, cases.length]);
    expect(Object.fromEntries(sizes)).toEqual(counts);
  });

  describe('a recorded stream', () => {
    for (const { path, expected } of streams) {
      test(`${path} is told whole, byte by byte, and never complete when cut`, () => {
        expectStream(upstream, readFixture(path), expected, fixtureByteByByte(path));
      });
      test(`${path} reaches clients of all kinds`, () => {
        expectCrossed(upstream, readFixture(path), expected);
      });
    }
    for (const { path, expected } of broken) {
      test(`${path} is told as a failure`, () => expectBroken(upstream, path, expected));
    }
  });

  describe('a recorded reply', () => {
    for (const { path, expected } of replies) {
      test(`${path} is told whole, and is no answer when cut`, () => {
        expectReply(upstream, readFixture(path).trimEnd(), expected);
      });
      test(`${path} reaches clients of all kinds`, () => {
        expectCrossedReply(upstream, readFixture(path), expected);
      });
    }
  });

  conformErrors(dialectName);
}

function readErrors(dialectName: string): ErrorCase[] {
  return readEntries(dialectName).flatMap(([path, expected]) =>
    expected.kind === 'error' ? [{ path, expected }] : [],
  );
}

export function conformErrors(dialectName: string): void {
  test.each(readErrors(dialectName))(
    'the recorded error $path is of the class $expected.class',
    ({ path, expected }) => {
      const failure = readFailure(expected.upstream_status, readFixture(path), new Headers());
      expect(failure.kind).toBe(kindOfClass[expected.class] ?? 'malformed');
      expect(failure.status).toBe(expected.upstream_status);
    },
  );
}

function expectBroken(upstream: UpstreamDialect, path: string, expected: ExpectedChat): void {
  for (const messages of [messagesOf(readFixture(path)), fixtureByteByByte(path)]) {
    const { told, failure, finished } = hear(upstream, messages);
    expect(failure?.message).toBe(expected.error?.message ?? '');
    expect(finished).toBe(false);
    expect(told.finishReason).toBeNull();
    expect(told.said).toBe(expected.text);
  }
}

function expectReply(upstream: UpstreamDialect, raw: string, expected: ExpectedChat): void {
  const whole = new ToldAnswer();
  expect(upstream.readReply(raw, whole)).toBeUndefined();
  expectTold(whole, expected);
  for (const length of [0, 1, raw.length >> 1, raw.length - 1]) {
    const told = new ToldAnswer();
    expect(upstream.readReply(raw.slice(0, length), told)?.kind).toBe('malformed');
    expect(told.order).toEqual([]);
  }
}
