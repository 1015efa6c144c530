/** Speech under an `Idempotency-Key`: made once, charged once, heard as often as it is wanted. */
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

/** 5 characters at 15 credits. */
const words = { model: 'openai/tts-1', input: 'Hello', voice: 'alloy' };
const paid = 75;

async function speak(key: string, body: object = {}, signal?: AbortSignal) {
  const response = await audio.gateway.fetch(
    { ...words, ...body },
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

/** Every byte there is, in an order that no text survives by chance. */
const sound = Buffer.from(Uint8Array.from({ length: 100_003 }, (_, at) => (at * 197) % 256));

/** In pieces of an odd length, as a network brings them. */
const recorded = () => replay(sound, { contentType: 'audio/mpeg', piece: 997 });

test('is heard again byte by byte, of the same type, for nothing', async () => {
  audio.openai.script('tts-1', recorded());
  const before = await audio.gateway.balance();
  const [first, again] = [await speak('greeting'), await speak('greeting')];
  expect(first.isReplayed).toBe(false);
  expect([again.status, again.isReplayed]).toEqual([200, true]);
  expect(first.bytes.equals(sound)).toBe(true);
  expect(again.bytes.equals(sound)).toBe(true);
  expect(again.headers.get('content-type')).toBe('audio/mpeg');
  expect(again.headers.get('content-length')).toBe('100003');
  // The receipt of either is that of the one which was paid for.
  expect([again.requestId, await creditsOf(again)]).toEqual([first.requestId, paid]);
  expect(before - (await audio.gateway.balance())).toBe(paid);
  expect(audio.openai.requests).toHaveLength(1);
});

test('has the type that was asked for', async () => {
  audio.openai.script('tts-1', replay(sound, { contentType: 'audio/wav' }));
  const wav = { response_format: 'wav' };
  const [first, again] = [await speak('wave', wav), await speak('wave', wav)];
  expect([first, again].map(({ headers }) => headers.get('content-type'))).toEqual([
    'audio/wav',
    'audio/wav',
  ]);
  expect(again.bytes.equals(sound)).toBe(true);
});

test('has the type of its bytes where they are something else', async () => {
  audio.openai.script('tts-1', replay(wavFile(1), { contentType: 'audio/mpeg' }));
  const [first, again] = [await speak('never-mp3'), await speak('never-mp3')];
  expect([first.isReplayed, again.isReplayed]).toEqual([false, true]);
  expect([first, again].map(({ headers }) => headers.get('content-type'))).toEqual([
    'audio/wav',
    'audio/wav',
  ]);
});

test.each([{ input: 'Hullo' }, { voice: 'nova' }, { response_format: 'opus' }, { speed: 2 }])(
  'is not given to another request: %j',
  async (change) => {
    audio.openai.script('tts-1', recorded());
    const key = `other ${JSON.stringify(change)}`.replaceAll(/\s/g, '');
    await speak(key);
    const refused = await speak(key, change);
    expect([refused.status, refused.error.param]).toEqual([409, 'Idempotency-Key']);
    expect(await creditsOf(refused)).toBe(0);
    expect(audio.openai.requests).toHaveLength(1);
  },
);

test('is waited for while it is still being made', async () => {
  audio.openai.script('tts-1', gated('rest', 0, recorded()));
  const both = [speak('both'), speak('both')];
  await audio.openai.until((requests) => requests.find(({ bodyAt }) => bodyAt !== null));
  audio.openai.open('rest');
  const [one, other] = await Promise.all(both);
  expect([one, other].map((reply) => reply?.bytes.equals(sound))).toEqual([true, true]);
  expect([one?.isReplayed, other?.isReplayed].toSorted()).toEqual([false, true]);
  expect(audio.openai.requests).toHaveLength(1);
});

test('that broke off is made anew', async () => {
  audio.openai.script('tts-1', hangMidStream(2, speech()));
  const cut = await speak('broken').catch(() => 'cut');
  expect(cut).toBe('cut');
  audio.openai.script('tts-1', recorded());
  const again = await speak('broken');
  expect([again.status, again.isReplayed]).toEqual([200, false]);
  expect(again.bytes.equals(sound)).toBe(true);
});

test('too long to be kept is charged once, and not made a second time', async () => {
  // Base64 takes four characters for three bytes.
  const long = Buffer.alloc(idempotentLengthMax * 0.75 + 1, 7);
  audio.openai.script('tts-1', replay(long, { contentType: 'audio/mpeg' }));
  const first = await speak('long');
  expect([first.status, first.bytes.length]).toEqual([200, long.length]);
  const again = await speak('long');
  expect([again.status, String(again.error.message)]).toEqual([
    409,
    expect.stringContaining('too long to store'),
  ]);
  expect([await creditsOf(first), await creditsOf(again)]).toEqual([paid, 0]);
  expect(audio.openai.requests).toHaveLength(1);
}, 120_000);

test('without a key is made each time, whatever the cache is told to keep', async () => {
  const key = await audio.gateway.makeKey({ cache: 'always' });
  audio.openai.script('tts-1', speech());
  const replies = [await audio.speak(words, key), await audio.speak(words, key)];
  expect(replies.map(({ headers }) => headers.get('x-cache'))).toEqual([null, null]);
  expect(audio.openai.requests).toHaveLength(2);
  expect(await Promise.all(replies.map(creditsOf))).toEqual([paid, paid]);
});
