/** Speech requests with an `Idempotency-Key`. */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import { idempotentLengthMax } from '../../src/core/bounds.ts';
import { wavFile } from '../support/audio-files.ts';
import { AudioGateway } from '../support/audio-gateway.ts';
import { gated, hangMidStream, replay, speech } from '../support/fake-upstream.ts';
import { readReply } from '../support/in-process.ts';

let audio: AudioGateway;

beforeAll(async () => {
  audio = await AudioGateway.start();
});
afterAll(() => audio.stop());
afterEach(() => audio.reset());

/** This request costs 75 credits: 5 characters at 15 credits. */
const speechBody = { model: 'openai/tts-1', input: 'Hello', voice: 'alloy' };
const cost = 75;

async function speak(key: string, body: object = {}, signal?: AbortSignal) {
  const response = await audio.gateway.fetch(
    { ...speechBody, ...body },
    {
      path: '/v1/audio/speech',
      headers: key === '' ? {} : { 'idempotency-key': key },
      ...(signal ? { signal } : {}),
    },
  );
  const { status, headers } = response;
  const bytes = Buffer.from(await response.arrayBuffer());
  const reply = await readReply(new Response(bytes, { headers, status }));
  return { ...reply, bytes, isReplayed: headers.get('idempotent-replayed') === 'true' };
}

const creditsOf = async (reply: { requestId: string }) => (await audio.bill(reply)).credits;

/** Contains every byte value, so that a conversion to text would change the bytes. */
const audioBytes = Buffer.from(
  Uint8Array.from({ length: 100_003 }, (_, index) => (index * 197) % 256),
);

/** Sends the audio in chunks of an odd length, as a network does. */
const audioAnswer = () => replay(audioBytes, { contentType: 'audio/mpeg', piece: 997 });

test('replays the same bytes with the same content type, free of charge', async () => {
  audio.openai.script('tts-1', audioAnswer());
  const before = await audio.gateway.balance();
  const [first, again] = [await speak('greeting'), await speak('greeting')];
  expect(first.isReplayed).toBe(false);
  expect([again.status, again.isReplayed]).toEqual([200, true]);
  expect(first.bytes.equals(audioBytes)).toBe(true);
  expect(again.bytes.equals(audioBytes)).toBe(true);
  expect(again.headers.get('content-type')).toBe('audio/mpeg');
  expect(again.headers.get('content-length')).toBe('100003');
  // Both answers have the request ID and receipt of the charged request.
  expect([again.requestId, await creditsOf(again)]).toEqual([first.requestId, cost]);
  expect(before - (await audio.gateway.balance())).toBe(cost);
  expect(audio.openai.requests).toHaveLength(1);
});

test('replays the requested content type', async () => {
  audio.openai.script('tts-1', replay(audioBytes, { contentType: 'audio/wav' }));
  const wav = { response_format: 'wav' };
  const [first, again] = [await speak('wave', wav), await speak('wave', wav)];
  expect([first, again].map(({ headers }) => headers.get('content-type'))).toEqual([
    'audio/wav',
    'audio/wav',
  ]);
  expect(again.bytes.equals(audioBytes)).toBe(true);
});

test('replays the detected content type if the provider sent another format', async () => {
  audio.openai.script('tts-1', replay(wavFile(1), { contentType: 'audio/mpeg' }));
  const [first, again] = [await speak('never-mp3'), await speak('never-mp3')];
  expect([first.isReplayed, again.isReplayed]).toEqual([false, true]);
  expect([first, again].map(({ headers }) => headers.get('content-type'))).toEqual([
    'audio/wav',
    'audio/wav',
  ]);
});

test.each([{ input: 'Hallo' }, { voice: 'nova' }, { response_format: 'opus' }, { speed: 2 }])(
  'returns 409 for a different request: %j',
  async (change) => {
    audio.openai.script('tts-1', audioAnswer());
    const key = `other ${JSON.stringify(change)}`.replaceAll(/\s/g, '');
    await speak(key);
    const rejected = await speak(key, change);
    expect([rejected.status, rejected.error.param]).toEqual([409, 'Idempotency-Key']);
    expect(await creditsOf(rejected)).toBe(0);
    expect(audio.openai.requests).toHaveLength(1);
  },
);

test('waits for a concurrent request with the same key', async () => {
  audio.openai.script('tts-1', gated('rest', 0, audioAnswer()));
  const both = [speak('both'), speak('both')];
  await audio.openai.until((requests) => requests.find(({ bodyAt }) => bodyAt !== null));
  audio.openai.open('rest');
  const [one, other] = await Promise.all(both);
  expect([one, other].map((reply) => reply?.bytes.equals(audioBytes))).toEqual([true, true]);
  expect([one?.isReplayed, other?.isReplayed].toSorted()).toEqual([false, true]);
  expect(audio.openai.requests).toHaveLength(1);
});

test('calls the provider again if the audio of the first request was interrupted', async () => {
  audio.openai.script('tts-1', hangMidStream(2, speech()));
  const interrupted = await speak('broken').catch(() => 'interrupted');
  expect(interrupted).toBe('interrupted');
  audio.openai.script('tts-1', audioAnswer());
  const again = await speak('broken');
  expect([again.status, again.isReplayed]).toEqual([200, false]);
  expect(again.bytes.equals(audioBytes)).toBe(true);
});

test('returns 409 for a repeated request whose audio was too long to store', async () => {
  // Base64 uses 4 characters for 3 bytes.
  const long = Buffer.alloc(idempotentLengthMax * 0.75 + 1, 7);
  audio.openai.script('tts-1', replay(long, { contentType: 'audio/mpeg' }));
  const first = await speak('long');
  expect([first.status, first.bytes.length]).toEqual([200, long.length]);
  const again = await speak('long');
  expect([again.status, String(again.error.message)]).toEqual([
    409,
    expect.stringContaining('too long to store'),
  ]);
  expect([await creditsOf(first), await creditsOf(again)]).toEqual([cost, 0]);
  expect(audio.openai.requests).toHaveLength(1);
}, 120_000);

test('synthesizes the same text again without an Idempotency-Key, even with cache: always', async () => {
  const key = await audio.gateway.makeKey({ cache: 'always' });
  audio.openai.script('tts-1', speech());
  const replies = [await audio.speak(speechBody, key), await audio.speak(speechBody, key)];
  expect(replies.map(({ headers }) => headers.get('x-cache'))).toEqual([null, null]);
  expect(audio.openai.requests).toHaveLength(2);
  expect(await Promise.all(replies.map(creditsOf))).toEqual([cost, cost]);
});
