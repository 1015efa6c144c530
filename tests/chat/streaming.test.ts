import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { ActiveClock } from '../support/active-clock.ts';
import { postText } from '../support/fake-upstream/raw-client.ts';
import {
  type Behavior,
  callTools,
  chatAnswer,
  cutMidStream,
  dataAfterDone,
  doneTwice,
  errorInside200,
  gated,
  hangBeforeHeaders,
  hangMidStream,
  malformedSse,
  manyTinyEvents,
  replay,
  resetMidStream,
  slowDrip,
  splitCharacters,
  sseSyntax,
  startFakeUpstream,
  withoutDone,
  withoutUsage,
  words,
} from '../support/fake-upstream.ts';
import { chatModel, contentOf, InProcessGateway } from '../support/in-process.ts';
import { SlowReader } from '../support/sse-client.ts';

const upstreamKey = 'sk-upstream-streaming-0123456789';
const upstreamModel = 'hidden-model-v7';
const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const base = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: upstreamKey };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: { vendor: base, impatient: { ...base, idle_timeout_ms: 600, timeout_ms: 600 } },
    models: [
      chatModel('acme/chat', [{ provider: 'vendor', model: upstreamModel }]),
      chatModel('acme/brisk', [{ provider: 'impatient', model: upstreamModel }]),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const chat = { model: 'acme/chat', messages: [{ role: 'user', content: 'hello' }] };
const withUsage = { stream_options: { include_usage: true } };

function play(behavior: Behavior): void {
  upstream.script(upstreamModel, behavior);
}

describe('the content of a stream', () => {
  const unusualTexts = [
    'a\n\ndata: [DONE]\n\nb',
    '\r\revent: error\rdata: {}',
    ': comment\n: another',
    'line\u2028separator\u2029s and \u0085 and \u0000',
    '"quotes" and \\ and \ud83d\ude00 and \u202e bidi',
    '{"choices":[]} "model":"x"',
  ];

  test.each(unusualTexts)(
    'arrives unchanged even if it looks like event syntax: %j',
    async (text) => {
      play(chatAnswer(text, { chunks: 3 }));
      const stream = await gateway.stream(chat);
      expect(stream.content).toBe(text);
      expect(stream.finishReasons).toEqual(['stop']);
      expect(stream.doneCount).toBe(1);
    },
  );

  test.each([
    ['LF', { lineEnd: '\n' }],
    ['CRLF', { lineEnd: '\r\n' }],
    ['CR', { lineEnd: '\r' }],
    ['a byte order mark', { byteOrderMark: true }],
    ['no space after the colon', { noSpace: true }],
    ['comments between events', { comments: true }],
    ['several data lines', { manyDataLines: true }],
    ['unknown fields and events', { oddFields: true }],
  ] as const)('arrives unchanged with every valid event syntax: %s', async (_, syntax) => {
    play(sseSyntax(syntax, chatAnswer('naïve words 日本 in a row')));
    const stream = await gateway.stream(chat);
    expect(stream.content).toBe('naïve words 日本 in a row');
    expect(stream.doneCount).toBe(1);
    expect(stream.error).toBeUndefined();
  });

  test('arrives unchanged if network chunks split characters', async () => {
    play(slowDrip(1, 0, chatAnswer('日本 😀')));
    expect((await gateway.stream(chat)).content).toBe('日本 😀');
    play(splitCharacters());
    expect((await gateway.stream(chat)).content).toBe('naïve 日本 😀 café');
  });

  test('includes reasoning, tool calls, and unknown chunk fields', async () => {
    play(callTools([{ name: 'find', arguments: { q: 'a b' } }], { reasoning: 'let me see' }));
    const stream = await gateway.stream(chat);
    expect(stream.finishReasons).toEqual(['tool_calls']);
    expect(stream.text).toContain('"reasoning":"let');
    expect(stream.text).toContain('"name":"find"');
    expect(stream.text).toContain('"system_fingerprint":"fp_fake"');
  });

  test('has the same text and usage as a non-streaming answer', async () => {
    play(chatAnswer(words(40)));
    const complete = await gateway.post(chat);
    const stream = await gateway.stream({ ...chat, ...withUsage });
    expect(stream.content).toBe(String(contentOf(complete)));
    expect(stream.usage).toEqual(isObject(complete.json.usage) ? complete.json.usage : {});
  });
});

describe('the identity of a streamed answer', () => {
  test('comes from the gateway in every chunk: id, object, model, and created', async () => {
    play(chatAnswer(words(5)));
    const sentAt = Math.floor(Date.now() / 1000);
    const stream = await gateway.stream({ ...chat, ...withUsage });
    const id = `chatcmpl-${stream.requestId.replaceAll('-', '')}`;
    expect(stream.chunks.length).toBeGreaterThan(6);
    for (const chunk of stream.chunks) {
      expect(chunk).toMatchObject({ id, object: 'chat.completion.chunk', model: 'acme/chat' });
      expect(Number(chunk.created)).toBeWithin(sentAt, Date.now() / 1000 + 1);
    }
  });

  const leakyError = `data: ${JSON.stringify({
    error: { message: `${upstreamModel} broke with ${upstreamKey}`, code: 500 },
  })}\n\n`;
  const leakyChunk = `data: ${JSON.stringify({
    id: 'chatcmpl-fake-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: upstreamModel,
    choices: [{ index: 0, delta: { content: 'hi' }, finish_reason: null }],
  })}\n\n`;

  test.each([
    ['a complete stream', chatAnswer(words(3))],
    ['a reset stream', resetMidStream(3)],
    ['a stream with an error event', errorInside200(3)],
    ['a stream with a malformed event', malformedSse(3)],
    ['an error message with secrets', replay(leakyChunk + leakyError, sse())],
    ['an error message with secrets before any content', replay(leakyError, sse())],
  ])('never reveals the upstream model, ids, or API key: %s', async (_, behavior) => {
    play(behavior);
    const { text, headers } = await gateway.stream({ ...chat, ...withUsage });
    const everything = `${JSON.stringify([...headers.entries()])}${text}`;
    for (const secret of [upstreamModel, upstreamKey, 'fake-', 'req_fake', upstream.url]) {
      expect(everything).not.toContain(secret);
    }
  });
});

function sse() {
  return { contentType: 'text/event-stream' };
}

describe('the usage of a stream', () => {
  test('is always requested from the upstream but sent only to clients that request it', async () => {
    play(chatAnswer('one two three'));
    const without = await gateway.stream(chat);
    expect(without.usage).toBeUndefined();
    expect(without.text).not.toContain('prompt_tokens');
    expect(upstream.requests[0]?.json).toMatchObject({ stream_options: { include_usage: true } });

    const stream = await gateway.stream({ ...chat, ...withUsage });
    const last = stream.chunks.at(-1);
    expect(last?.choices).toEqual([]);
    expect(last?.usage).toMatchObject({
      prompt_tokens: 1,
      completion_tokens: 3,
      total_tokens: 4,
      // 1 prompt token at $1 and 3 completion tokens at $2 per million.
      cost: 7,
    });
    expect(stream.chunks.filter(({ usage }) => isObject(usage))).toHaveLength(1);
  });

  test('is not sent if include_usage is false', async () => {
    play(chatAnswer('one'));
    const body = { ...chat, stream_options: { include_usage: false } };
    expect((await gateway.stream(body)).usage).toBeUndefined();
    expect(upstream.requests[0]?.json).toMatchObject({ stream_options: { include_usage: true } });
  });

  test('has its cost in dollars on /api/v1, and in credits elsewhere if requested', async () => {
    play(chatAnswer('one two three'));
    const path = '/api/v1/chat/completions';
    expect((await gateway.stream(chat, { path })).usage).toMatchObject({ cost: 0.000007 });
    const included = await gateway.stream({ ...chat, usage: { include: true } });
    expect(included.usage).toMatchObject({ cost: 7 });
    expect(upstream.requests[1]?.json).not.toHaveProperty('usage');
  });

  test('is estimated if the upstream reports none', async () => {
    play(withoutUsage(chatAnswer('abcdefgh')));
    const stream = await gateway.stream({ ...chat, ...withUsage });
    expect(stream.usage).toMatchObject({ completion_tokens: 2 });
    expect(await gateway.record(stream.requestId)).toMatchObject({ usageEstimated: true });
  });
});

describe('the end of a stream', () => {
  test.each([
    ['a missing [DONE]', withoutDone()],
    ['a second [DONE]', doneTwice()],
    ['data after [DONE]', dataAfterDone()],
  ])('has exactly one [DONE] as its last event despite %s', async (_, behavior) => {
    play(behavior);
    const stream = await gateway.stream(chat);
    expect(stream.content).toBe('complete');
    expect(stream.doneCount).toBe(1);
    expect(stream.text.endsWith('data: [DONE]\n\n')).toBe(true);
    expect(await gateway.record(stream.requestId)).toMatchObject({ status: 'success' });
  });

  test.each([
    ['a reset', resetMidStream(10), 502],
    ['a clean end without a finish reason', cutMidStream(10), 502],
    ['an error as data', errorInside200(10), 502],
    ['an error as an event', errorInside200(10, 'event'), 502],
    ['an event that is not JSON', malformedSse(10), 502],
    ['silence', hangMidStream(10), 504],
  ])('is an error event without [DONE], logged as an error, after %s', async (_, failure, code) => {
    play(failure);
    const stream = await gateway.stream({ ...chat, ...withUsage, model: 'acme/brisk' });
    expect(stream.status).toBe(200);
    expect(stream.content).toBe(words(9));
    expect(stream.doneCount).toBe(0);
    expect(stream.finishReasons).toEqual([]);
    const error = { message: expect.any(String), type: 'upstream_error', code, param: null };
    expect(stream.chunks.at(-1)).toEqual({ error });
    expect(stream.usage).toBeUndefined();
    const record = await gateway.record(stream.requestId);
    expect(record).toMatchObject({
      status: 'error',
      error: 'upstream_error',
      finishReason: null,
      streamed: true,
      provider: 'impatient',
    });
  });

  test('is normal if the upstream sends its last event but stays connected', async () => {
    // The opening, 2 words, the finish, the usage, and [DONE] are 6 events.
    play(hangMidStream(6, chatAnswer('two words')));
    const stream = await gateway.stream({ ...chat, model: 'acme/brisk', ...withUsage });
    expect(stream.content).toBe('two words');
    expect(stream.doneCount).toBe(1);
    expect(stream.usage).toMatchObject({ completion_tokens: 2 });
  });
});

describe('a client disconnect', () => {
  const phases: [string, Behavior, string | null][] = [
    ['before the headers', hangBeforeHeaders(), null],
    ['before the first event', hangMidStream(0), null],
    ['before the first word', hangMidStream(1), null],
    ['in the middle of the answer', hangMidStream(6), 'w5'],
  ];

  test.each(phases)('aborts the upstream call within 1 second: %s', async (_, behavior, seen) => {
    play(behavior);
    const disconnect = new AbortController();
    const answer = gateway.fetch({ ...chat, stream: true }, { signal: disconnect.signal });
    await upstream.until((requests) => requests.find((entry) => entry.outcome === 'hung'));
    if (seen !== null) await new SlowReader(await answer).readUntil(seen);
    using activeClock = new ActiveClock();
    disconnect.abort();
    await answer.catch(() => undefined);
    await upstream.until((requests) =>
      requests.find(
        ({ outcome, closedAt }) => outcome === 'client-disconnected' && closedAt !== null,
      ),
    );
    expect(activeClock.ms).toBeLessThan(1_000);
    expect(upstream.requests).toHaveLength(1);
  });

  test('aborts the upstream call of a non-streaming request', async () => {
    play(hangBeforeHeaders());
    const disconnect = new AbortController();
    const answer = gateway.fetch(chat, { signal: disconnect.signal });
    await upstream.until((requests) => requests.find((entry) => entry.outcome === 'hung'));
    using activeClock = new ActiveClock();
    disconnect.abort();
    await answer.catch(() => undefined);
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    expect(activeClock.ms).toBeLessThan(1_000);
  });

  test('in the middle of an answer is logged as canceled and billed for the output sent', async () => {
    play(hangMidStream(6));
    const disconnect = new AbortController();
    const response = await gateway.fetch({ ...chat, stream: true }, { signal: disconnect.signal });
    await new SlowReader(response).readUntil('w5');
    disconnect.abort();
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    const record = await gateway.record(response.headers.get('x-request-id') ?? '');
    expect(record).toMatchObject({ cancelled: true, streamed: true, usageEstimated: true });
    expect(record.charges.modelCharge).toBeGreaterThan(0);
  });
});

describe('a client that does not read', () => {
  /** All of these events together are about 200 MB. */
  const eventsMax = 1_000_000;

  test("slows down the upstream instead of filling the gateway's memory", async () => {
    play(manyTinyEvents(eventsMax));
    const before = memoryInUse();
    const connection = await silentClient(gateway.port);
    const body = { ...chat, stream: true };
    const authorization = `authorization: Bearer ${gateway.keys.routing}\r\n`;
    connection.write(postText('/v1/chat/completions', body, authorization));
    const entry = await upstream.until((requests) => requests.find(({ pauses }) => pauses > 0));
    const bytesSent = await settled(() => entry.bytesSent);
    expect(entry.outcome).toBe('open');
    expect(bytesSent).toBeLessThan(40 * 1024 * 1024);
    expect(memoryInUse() - before).toBeLessThan(60 * 1024 * 1024);
    using activeClock = new ActiveClock();
    connection.terminate();
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    expect(activeClock.ms).toBeLessThan(1_000);
  });

  /** Collects garbage before it measures, because the amount of garbage is random. */
  function memoryInUse(): number {
    Bun.gc(true);
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  }

  /** Opens a connection that never reads, so that only the kernel buffers what arrives. */
  async function silentClient(port: number) {
    const socket = await Bun.connect({
      hostname: '127.0.0.1',
      port,
      socket: { data: () => undefined },
    });
    socket.pause();
    return socket;
  }

  /** Returns the result of `read` once it has stopped changing. */
  async function settled(read: () => number): Promise<number> {
    for (let last = -1; last !== read(); await Bun.sleep(300)) last = read();
    return read();
  }
});

test('starts a stream before the upstream answer is complete', async () => {
  play(gated('later', 3, chatAnswer('first then rest')));
  const response = await gateway.fetch({ ...chat, stream: true });
  const reader = new SlowReader(response);
  await reader.readUntil('then');
  expect(reader.text).not.toContain('rest');
  upstream.open('later');
  await reader.readUntil('[DONE]');
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  expect(response.headers.get('x-accel-buffering')).toBe('no');
  expect(response.headers.get('cache-control')).toContain('no-transform');
});

test('reuses the upstream connection', async () => {
  play(chatAnswer('again'));
  for (let i = 0; i < 4; i++) await gateway.stream(chat);
  for (let i = 0; i < 4; i++) await gateway.post(chat);
  const connections = new Set(upstream.requests.map((entry) => entry.connection));
  expect(upstream.requests).toHaveLength(8);
  expect(connections.size).toBe(1);
});
