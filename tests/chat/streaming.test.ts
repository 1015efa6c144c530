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

describe('the words of a stream', () => {
  const nasty = [
    'a\n\ndata: [DONE]\n\nb',
    '\r\revent: error\rdata: {}',
    ': comment\n: another',
    'line\u2028separator\u2029s and \u0085 and \u0000',
    '"quotes" and \\ and \ud83d\ude00 and \u202e bidi',
    '{"choices":[]} "model":"x"',
  ];

  test.each(nasty)('arrive as one event each with the text as it was: %j', async (text) => {
    play(chatAnswer(text, { chunks: 3 }));
    const reading = await gateway.stream(chat);
    expect(reading.content).toBe(text);
    expect(reading.finishReasons).toEqual(['stop']);
    expect(reading.dones).toBe(1);
  });

  test.each([
    ['LF', { lineEnd: '\n' }],
    ['CRLF', { lineEnd: '\r\n' }],
    ['CR', { lineEnd: '\r' }],
    ['a byte order mark', { byteOrderMark: true }],
    ['no space behind the colon', { noSpace: true }],
    ['comments between', { comments: true }],
    ['several data lines', { manyDataLines: true }],
    ['unknown fields and events', { oddFields: true }],
  ] as const)('survive every spelling of events: %s', async (_, syntax) => {
    play(sseSyntax(syntax, chatAnswer('naïve words 日本 in a row')));
    const reading = await gateway.stream(chat);
    expect(reading.content).toBe('naïve words 日本 in a row');
    expect(reading.dones).toBe(1);
    expect(reading.error).toBeUndefined();
  });

  test('survive any cut between the bytes', async () => {
    play(slowDrip(1, 0, chatAnswer('日本 😀')));
    expect((await gateway.stream(chat)).content).toBe('日本 😀');
    play(splitCharacters());
    expect((await gateway.stream(chat)).content).toBe('naïve 日本 😀 café');
  });

  test('reasoning and tool calls pass, and unknown fields of a chunk with them', async () => {
    play(callTools([{ name: 'find', arguments: { q: 'a b' } }], { reasoning: 'let me see' }));
    const reading = await gateway.stream(chat);
    expect(reading.finishReasons).toEqual(['tool_calls']);
    expect(reading.text).toContain('"reasoning":"let');
    expect(reading.text).toContain('"name":"find"');
    expect(reading.text).toContain('"system_fingerprint":"fp_fake"');
  });

  test('a stream and a whole answer say and cost the same', async () => {
    play(chatAnswer(words(40)));
    const whole = await gateway.post(chat);
    const reading = await gateway.stream({ ...chat, ...withUsage });
    expect(reading.content).toBe(String(contentOf(whole)));
    expect(reading.usage).toEqual(isObject(whole.json.usage) ? whole.json.usage : {});
  });
});

describe('the identity of an answer', () => {
  test('is ours in every chunk: id, model, time and kind', async () => {
    play(chatAnswer(words(5)));
    const askedAt = Math.floor(Date.now() / 1000);
    const reading = await gateway.stream({ ...chat, ...withUsage });
    const id = `chatcmpl-${reading.requestId.replaceAll('-', '')}`;
    expect(reading.chunks.length).toBeGreaterThan(6);
    for (const chunk of reading.chunks) {
      expect(chunk).toMatchObject({ id, object: 'chat.completion.chunk', model: 'acme/chat' });
      expect(Number(chunk.created)).toBeWithin(askedAt, Date.now() / 1000 + 1);
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
    ['a good one', chatAnswer(words(3))],
    ['one that breaks off', resetMidStream(3)],
    ['one with an error inside', errorInside200(3)],
    ['one with garbage inside', malformedSse(3)],
    ['an error that names names', replay(leakyChunk + leakyError, sse())],
    ['an early error that names names', replay(leakyError, sse())],
  ])('never tells the upstream model, its ids or our key to it: %s', async (_, behavior) => {
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

describe('usage', () => {
  test('is always asked of the upstream and shown only to clients that asked', async () => {
    play(chatAnswer('one two three'));
    const without = await gateway.stream(chat);
    expect(without.usage).toBeUndefined();
    expect(without.text).not.toContain('prompt_tokens');
    expect(upstream.requests[0]?.json).toMatchObject({ stream_options: { include_usage: true } });

    const reading = await gateway.stream({ ...chat, ...withUsage });
    const last = reading.chunks.at(-1);
    expect(last?.choices).toEqual([]);
    expect(last?.usage).toMatchObject({
      prompt_tokens: 1,
      completion_tokens: 3,
      total_tokens: 4,
      // One prompt token at $1 and three at $2 a million: 7 credits.
      cost: 7,
    });
    expect(reading.chunks.filter(({ usage }) => isObject(usage))).toHaveLength(1);
  });

  test('asking with false is not asking', async () => {
    play(chatAnswer('one'));
    const body = { ...chat, stream_options: { include_usage: false } };
    expect((await gateway.stream(body)).usage).toBeUndefined();
    expect(upstream.requests[0]?.json).toMatchObject({ stream_options: { include_usage: true } });
  });

  test('comes with its cost on /api/v1 without being asked, and with usage.include', async () => {
    play(chatAnswer('one two three'));
    const path = '/api/v1/chat/completions';
    expect((await gateway.stream(chat, { path })).usage).toMatchObject({ cost: 7 });
    const included = await gateway.stream({ ...chat, usage: { include: true } });
    expect(included.usage).toMatchObject({ cost: 7 });
    expect(upstream.requests[1]?.json).not.toHaveProperty('usage');
  });

  test('is estimated when the upstream tells none', async () => {
    play(withoutUsage(chatAnswer('abcdefgh')));
    const reading = await gateway.stream({ ...chat, ...withUsage });
    expect(reading.usage).toMatchObject({ completion_tokens: 2 });
    expect(await gateway.record(reading.requestId)).toMatchObject({ usageEstimated: true });
  });
});

describe('the end of a stream', () => {
  test.each([
    ['a missing [DONE]', withoutDone()],
    ['two [DONE]', doneTwice()],
    ['data behind [DONE]', dataAfterDone()],
  ])('%s: the client sees one terminator and nothing behind it', async (_, behavior) => {
    play(behavior);
    const reading = await gateway.stream(chat);
    expect(reading.content).toBe('all said');
    expect(reading.dones).toBe(1);
    expect(reading.text.endsWith('data: [DONE]\n\n')).toBe(true);
    expect(await gateway.record(reading.requestId)).toMatchObject({ status: 'success' });
  });

  test.each([
    ['a reset', resetMidStream(10), 502],
    ['a clean end without a finish reason', cutMidStream(10), 502],
    ['an error as data', errorInside200(10), 502],
    ['an error as an event', errorInside200(10, 'event'), 502],
    ['an event that is no JSON', malformedSse(10), 502],
    ['silence', hangMidStream(10), 504],
  ])('%s in the middle: one error chunk, no [DONE], an error in the log', async (_, how, code) => {
    play(how);
    const reading = await gateway.stream({ ...chat, ...withUsage, model: 'acme/brisk' });
    expect(reading.status).toBe(200);
    expect(reading.content).toBe(words(9));
    expect(reading.dones).toBe(0);
    expect(reading.finishReasons).toEqual(['error']);
    const last = reading.chunks.at(-1);
    expect(last?.error).toMatchObject({ type: 'upstream_error', code, param: null });
    expect(last?.choices).toEqual([{ index: 0, delta: {}, finish_reason: 'error' }]);
    expect(reading.usage).toBeUndefined();
    const record = await gateway.record(reading.requestId);
    expect(record).toMatchObject({
      status: 'error',
      error: 'upstream_error',
      finishReason: null,
      streamed: true,
      provider: 'impatient',
    });
  });

  test('an upstream that falls silent behind its last word has answered all the same', async () => {
    // Opening, two words, finish, usage and [DONE] are six events.
    play(hangMidStream(6, chatAnswer('two words')));
    const reading = await gateway.stream({ ...chat, model: 'acme/brisk', ...withUsage });
    expect(reading.content).toBe('two words');
    expect(reading.dones).toBe(1);
    expect(reading.usage).toMatchObject({ completion_tokens: 2 });
  });
});

describe('a client that leaves', () => {
  const phases: [string, Behavior, string | null][] = [
    ['before the headers', hangBeforeHeaders(), null],
    ['before the first event', hangMidStream(0), null],
    ['before the first word', hangMidStream(1), null],
    ['in the middle', hangMidStream(6), 'w5'],
  ];

  test.each(phases)('%s stops the upstream within a second', async (_, behavior, seen) => {
    play(behavior);
    const leaving = new AbortController();
    const answer = gateway.fetch({ ...chat, stream: true }, { signal: leaving.signal });
    await upstream.until((requests) => requests.find((entry) => entry.outcome === 'hung'));
    if (seen !== null) await new SlowReader(await answer).readUntil(seen);
    using activeClock = new ActiveClock();
    leaving.abort();
    await answer.catch(() => undefined);
    await upstream.until((requests) =>
      requests.find(
        ({ outcome, closedAt }) => outcome === 'client-disconnected' && closedAt !== null,
      ),
    );
    expect(activeClock.ms).toBeLessThan(1_000);
    expect(upstream.requests).toHaveLength(1);
  });

  test('while a whole answer is being made stops the upstream too', async () => {
    play(hangBeforeHeaders());
    const leaving = new AbortController();
    const answer = gateway.fetch(chat, { signal: leaving.signal });
    await upstream.until((requests) => requests.find((entry) => entry.outcome === 'hung'));
    using activeClock = new ActiveClock();
    leaving.abort();
    await answer.catch(() => undefined);
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    expect(activeClock.ms).toBeLessThan(1_000);
  });

  test('in the middle is a cancelled request in the log, billed for what was sent', async () => {
    play(hangMidStream(6));
    const leaving = new AbortController();
    const response = await gateway.fetch({ ...chat, stream: true }, { signal: leaving.signal });
    await new SlowReader(response).readUntil('w5');
    leaving.abort();
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    const record = await gateway.record(response.headers.get('x-request-id') ?? '');
    expect(record).toMatchObject({ cancelled: true, streamed: true, usageEstimated: true });
    expect(record.charges.modelCharge).toBeGreaterThan(0);
  });
});

describe('a client that does not read', () => {
  /** About 200 MB of events, were they all sent. */
  const eventsMax = 1_000_000;

  test('makes the upstream wait instead of filling our memory', async () => {
    play(manyTinyEvents(eventsMax));
    const before = memoryInUse();
    const connection = await silentClient(gateway.port);
    const body = { ...chat, stream: true };
    const authorization = `authorization: Bearer ${gateway.keys.routing}\r\n`;
    connection.write(postText('/v1/chat/completions', body, authorization));
    const entry = await upstream.until((requests) => requests.find(({ pauses }) => pauses > 0));
    const sentAt = await settled(() => entry.bytesSent);
    expect(entry.outcome).toBe('open');
    expect(sentAt).toBeLessThan(40 * 1024 * 1024);
    expect(memoryInUse() - before).toBeLessThan(60 * 1024 * 1024);
    using activeClock = new ActiveClock();
    connection.terminate();
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    expect(activeClock.ms).toBeLessThan(1_000);
  });

  /** What is held on to; what only waits for its collection would be a matter of luck. */
  function memoryInUse(): number {
    Bun.gc(true);
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  }

  /** Reads nothing: what the kernel takes is all that can be on its way. */
  async function silentClient(port: number) {
    const socket = await Bun.connect({
      hostname: '127.0.0.1',
      port,
      socket: { data: () => undefined },
    });
    socket.pause();
    return socket;
  }

  /** The number once it has stood still for a while. */
  async function settled(read: () => number): Promise<number> {
    for (let last = -1; last !== read(); await Bun.sleep(300)) last = read();
    return read();
  }
});

test('a stream starts before its answer is complete', async () => {
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

test('the connection to the upstream is used again', async () => {
  play(chatAnswer('again'));
  for (let i = 0; i < 4; i++) await gateway.stream(chat);
  for (let i = 0; i < 4; i++) await gateway.post(chat);
  const connections = new Set(upstream.requests.map((entry) => entry.connection));
  expect(upstream.requests).toHaveLength(8);
  expect(connections.size).toBe(1);
});
