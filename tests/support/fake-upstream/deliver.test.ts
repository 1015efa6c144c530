import { afterAll, beforeEach, expect, test } from 'bun:test';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import {
  answerEarly,
  type Behavior,
  chatAnswer,
  compressionBomb,
  cutMidStream,
  delayed,
  encoded,
  endlessHeaders,
  gated,
  hangBeforeHeaders,
  hangMidStream,
  hugeEvent,
  interimReplies,
  replay,
  resetBeforeHeaders,
  resetMidStream,
  setCookieAndOddHeaders,
  slowDrip,
  splitCharacters,
  startFakeUpstream,
  truncatedJson,
  untilClose,
  words,
  wrongContentLength,
} from '../fake-upstream.ts';
import { connectRaw, postText, rawPost } from './raw-client.ts';

const upstream = startFakeUpstream();
afterAll(() => upstream.stop());
beforeEach(() => upstream.reset());

const chat = (stream: boolean) => ({
  model: 'm',
  stream,
  messages: [{ role: 'user', content: 'one two' }],
});

async function send(behavior: Behavior, stream: boolean) {
  upstream.script('m', behavior);
  const reply = await rawPost(upstream, chat(stream));
  const entry = await upstream.until((requests) => requests.find((one) => one.closedAt !== null));
  return { reply, entry, events: reply.text.match(/^data: /gm)?.length ?? 0 };
}

/** Requests an answer that doesn't end, on a connection that stays open. */
async function begin(behavior: Behavior, stream: boolean) {
  upstream.script('m', behavior);
  const connection = await connectRaw(upstream.port);
  connection.send(postText('/v1/chat/completions', chat(stream)));
  return connection;
}

test.each([0, 1, 10])('resetMidStream resets the connection after %d events', async (n) => {
  const { reply, entry, events } = await send(resetMidStream(n), true);
  expect(reply.ended).toBe('reset');
  expect(events).toBe(n);
  expect(entry).toMatchObject({ outcome: 'reset', eventsSent: n, bytesSent: reply.bytes.length });
});

test('resetBeforeHeaders sends nothing', async () => {
  const { reply, entry } = await send(resetBeforeHeaders(), false);
  expect(reply).toMatchObject({ ended: 'reset', text: '' });
  expect(entry).toMatchObject({ outcome: 'reset', status: null, bytesSent: 0 });
});

test('cutMidStream sends a complete response without a finish reason or [DONE]', async () => {
  const { reply, entry, events } = await send(cutMidStream(4), true);
  expect(reply.ended).toBe('closed');
  expect(events).toBe(4);
  expect(reply.text).toEndWith('\r\n0\r\n\r\n');
  expect(reply.text).not.toContain('[DONE]');
  expect(reply.text).not.toContain('"finish_reason":"stop"');
  expect(entry).toMatchObject({ outcome: 'cut', text: 'w1 w2 w3', usageSent: undefined });
  expect(entry.tokens).toEqual({ prompt: 2, completion: 3 });
});

test('cutMidStream closes the connection between chunks or in a chunk', async () => {
  const between = await send(cutMidStream(2, 'connection'), true);
  expect(between.reply.text).toEndWith('\n\n\r\n');
  upstream.reset();
  const inside = await send(cutMidStream(2, 'mid-chunk'), true);
  expect(inside.reply.text).toEndWith('400\r\ndata: {"choi');
  expect(inside.entry.outcome).toBe('cut');
});

test('cutMidStream stops a non-streaming answer after half of its content-length', async () => {
  const { reply, entry } = await send(cutMidStream(3, 'connection'), false);
  const [head = '', body = ''] = reply.text.split('\r\n\r\n');
  const declared = Number(/content-length: (\d+)/.exec(head)?.[1]);
  expect(body.length).toBe(Math.floor(declared / 2));
  expect(entry).toMatchObject({ outcome: 'cut', text: '' });
});

test('truncatedJson sends a matching content-length', async () => {
  const { reply, entry } = await send(truncatedJson(37), false);
  expect(reply.text).toContain('content-length: 37\r\n');
  expect(reply.text.split('\r\n\r\n')[1]).toHaveLength(37);
  expect(entry).toMatchObject({ outcome: 'cut', text: '', tokens: { completion: 0 } });
});

test('hangBeforeHeaders is logged as hung until the client disconnects', async () => {
  const connection = await begin(hangBeforeHeaders(), false);
  const hung = await upstream.until((requests) => requests.find((one) => one.outcome === 'hung'));
  expect(hung).toMatchObject({ bytesSent: 0, status: null, closedAt: null });
  const leftAt = performance.timeOrigin + performance.now();
  connection.disconnect();
  const left = await upstream.until((requests) =>
    requests.find((one) => one.outcome === 'client-disconnected'),
  );
  const noticedAt = performance.timeOrigin + performance.now();
  expect(left.finishedAt).toBeWithin(leftAt, noticedAt + 1);
});

test('hangMidStream logs the sent text and that the client disconnected', async () => {
  const connection = await begin(hangMidStream(3), true);
  await connection.received(' w2');
  connection.disconnect();
  const left = await upstream.until((requests) => requests.find((one) => one.closedAt !== null));
  expect(left).toMatchObject({ outcome: 'client-disconnected', eventsSent: 3, text: 'w1 w2' });
});

test('gated holds an answer until the test opens the gate', async () => {
  const connection = await begin(gated('go', 2, chatAnswer('before after')), true);
  await connection.received('before');
  expect(upstream.requests[0]).toMatchObject({ eventsSent: 2, outcome: 'open' });
  upstream.open('go');
  await connection.received('[DONE]');
  const entry = await upstream.until((requests) =>
    requests.find((one) => one.outcome === 'complete'),
  );
  expect(entry.text).toBe('before after');
  connection.disconnect();
});

test('a disconnect is logged immediately while the answer waits', async () => {
  // Longer than `until` waits, so the disconnect must be detected before the next chunk.
  const connection = await begin(chatAnswer(words(50), { chunkDelayMs: 60_000 }), true);
  await connection.received('assistant');
  connection.disconnect();
  const left = await upstream.until((requests) => requests.find((one) => one.closedAt !== null));
  expect(left).toMatchObject({ outcome: 'client-disconnected', eventsSent: 1 });
});

test('replay sends a recording byte by byte', async () => {
  const recorded = 'data: {"a":"é"}\n\ndata: [DONE]\n\n';
  const options = { contentType: 'text/event-stream', piece: 'byte by byte' } as const;
  const { reply, entry } = await send(replay(recorded, options), true);
  const body = reply.bytes.subarray(reply.bytes.indexOf('\r\n\r\n') + 4);
  expect(body.toString('latin1').match(/(?:^|\r\n)1\r\n/g)).toHaveLength(
    Buffer.byteLength(recorded),
  );
  expect(reply.reads.length).toBeGreaterThan(10);
  expect(entry.outcome).toBe('complete');
});

test('replay sends exact bytes and can be cut after any event', async () => {
  const recorded = 'data: one\r\n\r\ndata: two\r\n\r\ndata: three\r\n\r\n';
  const options = { contentType: 'text/event-stream', piece: 'event by event' } as const;
  upstream.script('m', replay(recorded, options));
  const full = await fetch(`${upstream.url}/v1/x`, { method: 'POST', body: '{"model":"m"}' });
  expect(await full.text()).toBe(recorded);
  upstream.script('m', cutMidStream(2, 'end-of-body', replay(recorded, options)));
  const cut = await fetch(`${upstream.url}/v1/x`, { method: 'POST', body: '{"model":"m"}' });
  expect(await cut.text()).toBe('data: one\r\n\r\ndata: two\r\n\r\n');
});

test('splitCharacters splits multi-byte characters between writes', async () => {
  const { reply } = await send(splitCharacters(chatAnswer('a 😀 b')), true);
  expect(reply.reads.some((read) => read.includes(Buffer.from([0xf0, 0x0d, 0x0a])))).toBe(true);
  upstream.reset();
  upstream.script('m', splitCharacters(chatAnswer('a 😀 b')));
  const body = JSON.stringify(chat(true));
  const joined = await fetch(`${upstream.url}/v1/chat/completions`, { method: 'POST', body });
  expect(await joined.text()).toContain(' 😀');
});

test('slowDrip sends small pieces with delays', async () => {
  const startedAt = performance.now();
  const { reply } = await send(slowDrip(50, 10, chatAnswer('ok')), false);
  const pieces = Math.ceil((reply.bytes.length - reply.bytes.indexOf('\r\n\r\n')) / 50);
  expect(performance.now() - startedAt).toBeGreaterThan(pieces * 10 - 20);
  expect(reply.text).toContain('"content":"ok"');
});

test('delayed waits before the first byte', async () => {
  const { entry } = await send(delayed(60), false);
  expect((entry.firstByteAt ?? 0) - entry.at).toBeGreaterThanOrEqual(59);
});

test('hugeEvent is sent as fast as its reader reads', async () => {
  const connection = await begin(hugeEvent(8 * 1024 * 1024), true);
  await connection.received('"content":"');
  await upstream.until((requests) => requests.find((one) => one.outcome === 'complete'));
  const [entry] = upstream.requests;
  expect(entry?.bytesSent).toBeGreaterThan(8 * 1024 * 1024);
  expect(entry?.pauses).toBeGreaterThan(0);
  expect(entry?.eventsSent).toBe(0);
  connection.disconnect();
});

test('encoded compresses an answer in several layers', async () => {
  const { reply } = await send(encoded(['gzip', 'br'], chatAnswer('packed')), false);
  expect(reply.text).toContain('content-encoding: gzip, br\r\n');
  const body = reply.bytes.subarray(reply.bytes.indexOf('\r\n\r\n') + 4);
  expect(gunzipSync(brotliDecompressSync(body)).toString()).toContain('"content":"packed"');
});

test('compressionBomb sends a small body', async () => {
  const { reply } = await send(compressionBomb(1024 * 1024), false);
  expect(reply.bytes.length).toBeLessThan(1000);
});

test.each([
  [10, 'closed', 'cut'],
  [-10, 'closed', 'complete'],
] as const)(
  'wrongContentLength sends a content-length that is off by %d',
  async (off, ended, outcome) => {
    const { reply, entry } = await send(wrongContentLength(off), false);
    const [head = '', body = ''] = reply.text.split('\r\n\r\n');
    expect(Number(/content-length: (\d+)/.exec(head)?.[1])).toBe(body.length + off);
    expect(reply.ended).toBe(ended);
    expect(entry.outcome).toBe(outcome);
  },
);

test('untilClose sends a body that ends when the connection closes', async () => {
  const { reply, entry } = await send(untilClose(), true);
  expect(reply.text).not.toMatch(/content-length|transfer-encoding/);
  expect(reply.text).toEndWith('data: [DONE]\n\n');
  expect(entry.outcome).toBe('complete');
});

test('answerEarly does not wait for the request body', async () => {
  upstream.script('*', answerEarly(chatAnswer('early')));
  const connection = await connectRaw(upstream.port);
  const request = postText('/v1/chat/completions', chat(false));
  connection.send(request.slice(0, -10));
  await connection.received('early');
  expect(upstream.requests[0]).toMatchObject({ bodyAt: null, outcome: 'complete' });
  connection.send(request.slice(-10));
  const entry = await upstream.until((requests) => requests.find((one) => one.model === 'm'));
  expect(entry.json).toEqual(chat(false));
  connection.send(request);
  await upstream.until((requests) => requests[1]?.connection === entry.connection);
  connection.disconnect();
});

test('interimReplies, endlessHeaders, and setCookieAndOddHeaders precede the answer', async () => {
  const interim = await send(interimReplies(3), false);
  expect(interim.reply.text.match(/HTTP\/1.1 103/g)).toHaveLength(3);
  upstream.reset();
  const long = await send(endlessHeaders(100_000), false);
  expect(long.reply.bytes.indexOf('\r\n\r\n')).toBeGreaterThan(100_000);
  expect(long.reply.text).toContain('"content":"ok"');
  upstream.reset();
  const odd = await send(setCookieAndOddHeaders(), false);
  expect(odd.reply.text.match(/^set-cookie: /gm)).toHaveLength(2);
  expect(odd.reply.bytes.includes(Buffer.from([0x8d, 0x8a, 0xff, 0x0d, 0x0a]))).toBe(true);
});
