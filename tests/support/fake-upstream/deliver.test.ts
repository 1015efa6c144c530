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

async function ask(behavior: Behavior, stream: boolean) {
  upstream.script('m', behavior);
  const reply = await rawPost(upstream, chat(stream));
  const entry = await upstream.until((requests) => requests.find((one) => one.closedAt !== null));
  return { reply, entry, events: reply.text.match(/^data: /gm)?.length ?? 0 };
}

/** For answers of which only the beginning comes, on a connection that stays open. */
async function begin(behavior: Behavior, stream: boolean) {
  upstream.script('m', behavior);
  const connection = await connectRaw(upstream.port);
  connection.send(postText('/v1/chat/completions', chat(stream)));
  return connection;
}

test.each([0, 1, 10])(
  'a reset after %d events arrives as a reset, and the book says so',
  async (n) => {
    const { reply, entry, events } = await ask(resetMidStream(n), true);
    expect(reply.ended).toBe('reset');
    expect(events).toBe(n);
    expect(entry).toMatchObject({ outcome: 'reset', eventsSent: n, bytesSent: reply.bytes.length });
  },
);

test('a reset before the headers sends nothing at all', async () => {
  const { reply, entry } = await ask(resetBeforeHeaders(), false);
  expect(reply).toMatchObject({ ended: 'reset', text: '' });
  expect(entry).toMatchObject({ outcome: 'reset', status: null, bytesSent: 0 });
});

test('a cut stream is correct HTTP without a finish and without [DONE]', async () => {
  const { reply, entry, events } = await ask(cutMidStream(4), true);
  expect(reply.ended).toBe('closed');
  expect(events).toBe(4);
  expect(reply.text).toEndWith('\r\n0\r\n\r\n');
  expect(reply.text).not.toContain('[DONE]');
  expect(reply.text).not.toContain('"finish_reason":"stop"');
  expect(entry).toMatchObject({ outcome: 'cut', text: 'w1 w2 w3', usageSent: undefined });
  expect(entry.tokens).toEqual({ prompt: 2, completion: 3 });
});

test('a stream can lose its connection between chunks or inside one', async () => {
  const between = await ask(cutMidStream(2, 'connection'), true);
  expect(between.reply.text).toEndWith('\n\n\r\n');
  upstream.reset();
  const inside = await ask(cutMidStream(2, 'mid-chunk'), true);
  expect(inside.reply.text).toEndWith('400\r\ndata: {"choi');
  expect(inside.entry.outcome).toBe('cut');
});

test('a whole answer stops at half of its promised length', async () => {
  const { reply, entry } = await ask(cutMidStream(3, 'connection'), false);
  const [head = '', body = ''] = reply.text.split('\r\n\r\n');
  const promised = Number(/content-length: (\d+)/.exec(head)?.[1]);
  expect(body.length).toBe(Math.floor(promised / 2));
  expect(entry).toMatchObject({ outcome: 'cut', text: '' });
});

test('half a JSON can also have the right length', async () => {
  const { reply, entry } = await ask(truncatedJson(37), false);
  expect(reply.text).toContain('content-length: 37\r\n');
  expect(reply.text.split('\r\n\r\n')[1]).toHaveLength(37);
  expect(entry).toMatchObject({ outcome: 'cut', text: '', tokens: { completion: 0 } });
});

test('a hang before the headers is seen until the client gives up', async () => {
  const connection = await begin(hangBeforeHeaders(), false);
  const hung = await upstream.until((requests) => requests.find((one) => one.outcome === 'hung'));
  expect(hung).toMatchObject({ bytesSent: 0, status: null, closedAt: null });
  const leftAt = performance.timeOrigin + performance.now();
  connection.hangUp();
  const left = await upstream.until((requests) =>
    requests.find((one) => one.outcome === 'client-disconnected'),
  );
  const noticedAt = performance.timeOrigin + performance.now();
  expect(left.finishedAt).toBeWithin(leftAt, noticedAt + 1);
});

test('a hang in mid-stream keeps what was said and notes when the client left', async () => {
  const connection = await begin(hangMidStream(3), true);
  await connection.received(' w2');
  connection.hangUp();
  const left = await upstream.until((requests) => requests.find((one) => one.closedAt !== null));
  expect(left).toMatchObject({ outcome: 'client-disconnected', eventsSent: 3, text: 'w1 w2' });
});

test('a gate holds an answer until the test opens it', async () => {
  const connection = await begin(gated('go', 2, chatAnswer('before after')), true);
  await connection.received('before');
  expect(upstream.requests[0]).toMatchObject({ eventsSent: 2, outcome: 'open' });
  upstream.open('go');
  await connection.received('[DONE]');
  const entry = await upstream.until((requests) =>
    requests.find((one) => one.outcome === 'complete'),
  );
  expect(entry.text).toBe('before after');
  connection.hangUp();
});

test('a client that leaves while its answer waits is noted at once', async () => {
  // Longer than the book is waited for: whoever looks at the next chunk only comes too late.
  const connection = await begin(chatAnswer(words(50), { chunkDelayMs: 60_000 }), true);
  await connection.received('assistant');
  connection.hangUp();
  const left = await upstream.until((requests) => requests.find((one) => one.closedAt !== null));
  expect(left).toMatchObject({ outcome: 'client-disconnected', eventsSent: 1 });
});

test('bytes arrive one by one when a recording is replayed so', async () => {
  const recorded = 'data: {"a":"é"}\n\ndata: [DONE]\n\n';
  const options = { contentType: 'text/event-stream', piece: 'byte by byte' } as const;
  const { reply, entry } = await ask(replay(recorded, options), true);
  const body = reply.bytes.subarray(reply.bytes.indexOf('\r\n\r\n') + 4);
  expect(body.toString('latin1').match(/(?:^|\r\n)1\r\n/g)).toHaveLength(
    Buffer.byteLength(recorded),
  );
  expect(reply.reads.length).toBeGreaterThan(10);
  expect(entry.outcome).toBe('complete');
});

test('a replayed recording is byte-exact and can be cut after any event', async () => {
  const recorded = 'data: one\r\n\r\ndata: two\r\n\r\ndata: three\r\n\r\n';
  const options = { contentType: 'text/event-stream', piece: 'event by event' } as const;
  upstream.script('m', replay(recorded, options));
  const whole = await fetch(`${upstream.url}/v1/x`, { method: 'POST', body: '{"model":"m"}' });
  expect(await whole.text()).toBe(recorded);
  upstream.script('m', cutMidStream(2, 'end-of-body', replay(recorded, options)));
  const cut = await fetch(`${upstream.url}/v1/x`, { method: 'POST', body: '{"model":"m"}' });
  expect(await cut.text()).toBe('data: one\r\n\r\ndata: two\r\n\r\n');
});

test('characters of several bytes are split over writes and still complete', async () => {
  const { reply } = await ask(splitCharacters(chatAnswer('a 😀 b')), true);
  expect(reply.reads.some((read) => read.includes(Buffer.from([0xf0, 0x0d, 0x0a])))).toBe(true);
  upstream.reset();
  upstream.script('m', splitCharacters(chatAnswer('a 😀 b')));
  const body = JSON.stringify(chat(true));
  const joined = await fetch(`${upstream.url}/v1/chat/completions`, { method: 'POST', body });
  expect(await joined.text()).toContain(' 😀');
});

test('a drip takes its time', async () => {
  const startedAt = performance.now();
  const { reply } = await ask(slowDrip(50, 10, chatAnswer('ok')), false);
  const pieces = Math.ceil((reply.bytes.length - reply.bytes.indexOf('\r\n\r\n')) / 50);
  expect(performance.now() - startedAt).toBeGreaterThan(pieces * 10 - 20);
  expect(reply.text).toContain('"content":"ok"');
});

test('a delay comes before the first byte', async () => {
  const { entry } = await ask(delayed(60), false);
  expect((entry.firstByteAt ?? 0) - entry.at).toBeGreaterThanOrEqual(59);
});

test('an endless line is written at the pace of its reader', async () => {
  const connection = await begin(hugeEvent(8 * 1024 * 1024), true);
  await connection.received('"content":"');
  await upstream.until((requests) => requests.find((one) => one.outcome === 'complete'));
  const [entry] = upstream.requests;
  expect(entry?.bytesSent).toBeGreaterThan(8 * 1024 * 1024);
  expect(entry?.pauses).toBeGreaterThan(0);
  expect(entry?.eventsSent).toBe(0);
  connection.hangUp();
});

test('an answer can be compressed in layers that nobody asked for', async () => {
  const { reply } = await ask(encoded(['gzip', 'br'], chatAnswer('packed')), false);
  expect(reply.text).toContain('content-encoding: gzip, br\r\n');
  const body = reply.bytes.subarray(reply.bytes.indexOf('\r\n\r\n') + 4);
  expect(gunzipSync(brotliDecompressSync(body)).toString()).toContain('"content":"packed"');
});

test('a compression bomb is small on the wire', async () => {
  const { reply } = await ask(compressionBomb(1024 * 1024), false);
  expect(reply.bytes.length).toBeLessThan(1000);
});

test.each([
  [10, 'closed', 'cut'],
  [-10, 'closed', 'complete'],
] as const)('a length that is off by %d is announced', async (off, ended, outcome) => {
  const { reply, entry } = await ask(wrongContentLength(off), false);
  const [head = '', body = ''] = reply.text.split('\r\n\r\n');
  expect(Number(/content-length: (\d+)/.exec(head)?.[1])).toBe(body.length + off);
  expect(reply.ended).toBe(ended);
  expect(entry.outcome).toBe(outcome);
});

test('a body can end with the connection', async () => {
  const { reply, entry } = await ask(untilClose(), true);
  expect(reply.text).not.toMatch(/content-length|transfer-encoding/);
  expect(reply.text).toEndWith('data: [DONE]\n\n');
  expect(entry.outcome).toBe('complete');
});

test('an early answer does not wait for the body', async () => {
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
  connection.hangUp();
});

test('interim replies, endless headers and odd headers come before the answer', async () => {
  const interim = await ask(interimReplies(3), false);
  expect(interim.reply.text.match(/HTTP\/1.1 103/g)).toHaveLength(3);
  upstream.reset();
  const long = await ask(endlessHeaders(100_000), false);
  expect(long.reply.bytes.indexOf('\r\n\r\n')).toBeGreaterThan(100_000);
  expect(long.reply.text).toContain('"content":"ok"');
  upstream.reset();
  const odd = await ask(setCookieAndOddHeaders(), false);
  expect(odd.reply.text.match(/^set-cookie: /gm)).toHaveLength(2);
  expect(odd.reply.bytes.includes(Buffer.from([0x8d, 0x8a, 0xff, 0x0d, 0x0a]))).toBe(true);
});
