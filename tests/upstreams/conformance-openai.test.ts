/**
 * Recorded answers of OpenAI-style providers, relayed to an OpenAI client. What the client sees is
 * put together by a reader of its own, which shares no code with the relay.
 */
import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import type { FailureKind, SseMessage } from '../../src/dialects/dialect.ts';
import { EventStreamReader } from '../../src/dialects/event-stream.ts';
import { readFailure } from '../../src/dialects/failure.ts';
import { OpenAiPassThrough } from '../../src/dialects/openai/pass-through.ts';
import { readReply } from '../../src/dialects/openai/pass-through-reply.ts';
import { writeUsage } from '../../src/dialects/openai/usage.ts';

interface ExpectedUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly cached_tokens?: number;
  readonly reasoning_tokens?: number;
}

interface ExpectedChat {
  readonly dialect: string;
  readonly kind: 'chat';
  readonly stream?: boolean;
  readonly text: string;
  readonly reasoning: string;
  readonly tool_calls: readonly { readonly name: string; readonly arguments: object }[];
  readonly openai: { readonly finish_reason: string; readonly usage: ExpectedUsage };
  readonly error?: { readonly code: number; readonly message: string };
}

interface ExpectedError {
  readonly dialect: string;
  readonly kind: 'error';
  readonly upstream_status: number | string;
  readonly class: string;
}

const fixtures = new URL('../../fixtures/', import.meta.url);
const readFixture = (path: string) => readFileSync(new URL(path, fixtures), 'utf8');
const entries = Object.entries(
  JSON.parse(readFixture('expect.json')) as Record<string, ExpectedChat | ExpectedError>,
).filter(([, { dialect }]) => dialect === 'openai');
const chats = entries.flatMap(([path, entry]) =>
  entry.kind === 'chat' ? [{ path, expected: entry }] : [],
);
const streams = chats.filter(({ expected }) => expected.stream);
const replies = chats.filter(({ expected }) => !expected.stream);
const errors = entries.flatMap(([path, entry]) =>
  entry.kind === 'error' ? [{ path, expected: entry }] : [],
);

const kindOfClass: Readonly<Record<string, FailureKind>> = {
  invalid_request: 'request',
  unsupported_parameter: 'request',
  context_length: 'request',
  content_filter: 'request',
  model_not_found: 'request',
  upstream_auth: 'credential',
  quota: 'quota',
  rate_limit: 'rate_limited',
  overloaded: 'overloaded',
  timeout: 'timeout',
  server: 'server',
  tool_use_failed: 'server',
};

const identity = {
  id: 'chatcmpl-feedfacefeedface',
  model: 'acme/chat-large',
  provider: 'acme',
  created: 1_800_000_000,
};

/** How a client that appends every text it gets would see an answer. */
interface Seen {
  text: string;
  reasoning: string;
  calls: { id: string; name: string; arguments: string }[];
  finishReason: string | null;
}

interface Words {
  readonly content?: string | null;
  readonly reasoning?: string | null;
  readonly tool_calls?: readonly {
    readonly index?: number;
    readonly id?: string;
    readonly function: { readonly name?: string; readonly arguments?: string };
  }[];
}

interface Answer {
  readonly id: string;
  readonly object: string;
  readonly model: string;
  readonly usage?: unknown;
  readonly choices: readonly {
    readonly index: number;
    readonly delta?: Words;
    readonly message?: Words;
    readonly finish_reason?: string | null;
  }[];
}

function see(seen: Seen, words: Words): void {
  seen.text += words.content ?? '';
  seen.reasoning += words.reasoning ?? '';
  for (const [at, call] of (words.tool_calls ?? []).entries()) {
    const index = call.index ?? at;
    seen.calls[index] ??= { id: '', name: '', arguments: '' };
    seen.calls[index].id += call.id ?? '';
    seen.calls[index].name += call.function.name ?? '';
    seen.calls[index].arguments += call.function.arguments ?? '';
  }
}

function readAnswers(answers: readonly Answer[]): Seen {
  const seen: Seen = { text: '', reasoning: '', calls: [], finishReason: null };
  for (const { id, model, choices } of answers) {
    expect({ id, model }).toEqual({ id: identity.id, model: identity.model });
    const [choice] = choices;
    if (!choice) continue;
    see(seen, choice.delta ?? choice.message ?? {});
    seen.finishReason = choice.finish_reason ?? seen.finishReason;
  }
  return seen;
}

function readChunks(sse: string): Answer[] {
  const events = sse.split('\n\n').filter((event) => event !== '' && event !== 'data: [DONE]');
  return events.map((event) => {
    expect(event).toStartWith('data: {');
    const chunk = JSON.parse(event.slice(6)) as Answer;
    expect(chunk.object).toBe('chat.completion.chunk');
    return chunk;
  });
}

function expectSeen(seen: Seen, expected: ExpectedChat): void {
  const { text, reasoning, finishReason } = seen;
  expect({ text, reasoning, finishReason }).toEqual({
    text: expected.text,
    reasoning: expected.reasoning,
    finishReason: expected.openai.finish_reason,
  });
  const calls = seen.calls.map((call) => ({
    name: call.name,
    arguments: JSON.parse(call.arguments) as object,
  }));
  expect(calls).toEqual([...(expected.tool_calls ?? [])]);
  for (const { id } of seen.calls) expect(id).toMatch(/^\S{6,64}$/);
  expect(new Set(seen.calls.map(({ id }) => id)).size).toBe(seen.calls.length);
}

/** The usage in the client's words against the recording's; a detail not named there is zero. */
function expectUsage(usage: ReturnType<typeof writeUsage>, expected: ExpectedUsage): void {
  expect({
    prompt_tokens: usage.prompt_tokens,
    completion_tokens: usage.completion_tokens,
    total_tokens: usage.total_tokens,
    cached_tokens: usage.prompt_tokens_details.cached_tokens,
    reasoning_tokens: usage.completion_tokens_details.reasoning_tokens,
  }).toEqual({ cached_tokens: 0, reasoning_tokens: 0, ...expected });
}

/** The upstream's own ids and model names, found in the raw text. */
function namesIn(raw: string): string[] {
  const found = raw.matchAll(/"(?:id|model|request_id)": ?"((?!call_|toolu_)[^"]{6,})"/g);
  const calls = new Set([...raw.matchAll(/"tool_calls": ?\[\{[^{]*"id": ?"([^"]+)"/g)].map(at1));
  return [...new Set([...found].map(at1))].filter((name) => !calls.has(name));
}
const at1 = (match: RegExpMatchArray) => match[1] ?? '';

function messagesOf(raw: string): SseMessage[] {
  const reader = new EventStreamReader();
  return [...reader.push(raw), ...reader.end()];
}

function relay(messages: readonly SseMessage[]) {
  const stream = new OpenAiPassThrough(identity, { includeUsage: true });
  const parts = messages.map((message) => stream.push(message));
  return { stream, output: parts.join('') };
}

test('the recordings cover streams, whole answers and errors', () => {
  expect(streams.length).toBeGreaterThanOrEqual(11);
  expect(replies.length).toBeGreaterThanOrEqual(14);
  expect(errors.length).toBeGreaterThanOrEqual(14);
});

describe('a recorded stream', () => {
  test.each(streams)('$path arrives whole', ({ path, expected }) => {
    const { stream, output } = relay(messagesOf(readFixture(path)));
    expectSeen(readAnswers(readChunks(output)), expected);
    expect(stream.started).toBe(true);
    expect(stream.finished).toBe(true);
    expect(stream.facts.finishReason).toBe(expected.openai.finish_reason);
    if (expected.error) {
      expect(stream.facts.failure).toMatchObject({
        status: expected.error.code,
        message: expected.error.message,
      });
    } else expect(stream.facts.failure).toBeUndefined();
    const usage = stream.facts.usage;
    if (!usage) throw new Error('no usage was read');
    expectUsage(writeUsage(usage, 7), expected.openai.usage);
    expect(readChunks(output).filter((chunk) => chunk.usage || !chunk.choices[0])).toEqual([]);
    expect(output).not.toContain('[DONE]');

    const last = stream.close({ usage, costCredits: 7 });
    expect(last).toEndWith('data: [DONE]\n\n');
    const [closing, ...more] = readChunks(last);
    expect(more).toEqual([]);
    expect(closing).toMatchObject({ choices: [], usage: { cost: 7 } });
  });

  test.each(streams)('$path arrives alike byte by byte', ({ path }) => {
    const raw = readFixture(path);
    const decoder = new TextDecoder();
    const reader = new EventStreamReader();
    const messages: SseMessage[] = [];
    for (const byte of new TextEncoder().encode(raw)) {
      messages.push(...reader.push(decoder.decode(new Uint8Array([byte]), { stream: true })));
    }
    messages.push(...reader.push(decoder.decode()), ...reader.end());
    expect(messages).toEqual(messagesOf(raw));
    expect(relay(messages).output).toBe(relay(messagesOf(raw)).output);
  });

  test.each(streams)('$path cut after any event is not taken for complete', ({ path }) => {
    const messages = messagesOf(readFixture(path));
    const { output: whole } = relay(messages);
    for (let length = 0; length < messages.length; length += 1) {
      const before = messages.slice(0, length);
      const { stream, output } = relay(before);
      const hasFinish = before.some(({ data }) => /"finish_reason": ?"/.test(data));
      expect(stream.finished).toBe(hasFinish);
      expect(stream.facts.finishReason !== undefined).toBe(hasFinish);
      expect(whole).toStartWith(output);
    }
  });

  test.each(streams)('$path does not name its upstream', ({ path }) => {
    const raw = readFixture(path);
    const names = namesIn(raw);
    expect(names.length).toBeGreaterThanOrEqual(2);
    const { output } = relay(messagesOf(raw));
    expect(names.filter((name) => output.includes(name))).toEqual([]);
  });
});

describe('a recorded reply', () => {
  test.each(replies)('$path arrives whole', ({ path, expected }) => {
    const raw = readFixture(path);
    const reply = readReply(raw, identity);
    if (!('write' in reply)) throw new Error(reply.message);
    const { usage, finishReason } = reply.facts;
    if (!usage) throw new Error('no usage was read');
    expect(finishReason).toBe(expected.openai.finish_reason);
    const text = reply.write({ usage, costCredits: 7 });
    const body = JSON.parse(text) as Answer & { usage: ReturnType<typeof writeUsage> };
    expect(body).toMatchObject({
      object: 'chat.completion',
      provider: identity.provider,
      created: identity.created,
      usage: { cost: 7 },
    });
    expectSeen(readAnswers([body]), expected);
    expectUsage(body.usage, expected.openai.usage);
    const names = namesIn(raw);
    expect(names.length).toBeGreaterThanOrEqual(2);
    expect(names.filter((name) => text.includes(name))).toEqual([]);
  });
});

describe('a recorded error', () => {
  test.each(errors)('$path is of the class $expected.class', ({ path, expected }) => {
    const body = readFixture(path);
    const status = expected.upstream_status;
    const failure =
      typeof status === 'number'
        ? readFailure(status, body, new Headers())
        : readReply(body, identity);
    if ('write' in failure) throw new Error('the error passed for an answer');
    expect(failure.kind).toBe(kindOfClass[expected.class] ?? 'malformed');
    expect(failure.status).toBe(typeof status === 'number' ? status : 400);
    expect(failure.message).toMatch(/^[A-Z][^{}<>]+$/);
  });
});
