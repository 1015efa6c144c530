import { afterAll, expect, test } from 'bun:test';
import { startDemoUpstream } from './server.ts';

const demo = startDemoUpstream();
afterAll(() => demo.stop());

async function readJson<Shape>(response: Response): Promise<Shape> {
  return (await response.json()) as Shape;
}

function post(body: object): Promise<Response> {
  return fetch(`${demo.url}/audio/speech`, {
    method: 'POST',
    body: JSON.stringify({ model: 'demo-speech', voice: 'alloy', ...body }),
  });
}

async function speak(body: object): Promise<Buffer> {
  const response = await post(body);
  expect(response.status).toBe(200);
  return Buffer.from(await response.arrayBuffer());
}

/** 25 characters are 5 notes of 240 ms: 1.2 s, 28,800 samples. */
const input = 'Good morning to everyone.';

test('wav is 24 kHz 16-bit mono with the correct sizes', async () => {
  const response = await post({ input, response_format: 'wav' });
  expect(response.headers.get('content-type')).toBe('audio/wav');
  const wav = Buffer.from(await response.arrayBuffer());
  expect(wav.toString('latin1', 0, 4)).toBe('RIFF');
  expect(wav.readUInt32LE(4)).toBe(wav.length - 8);
  expect(wav.toString('latin1', 8, 16)).toBe('WAVEfmt ');
  expect([16, 20, 22, 32, 34].map((at) => wav.readUInt16LE(at))).toEqual([16, 1, 1, 2, 16]);
  expect([24, 28].map((at) => wav.readUInt32LE(at))).toEqual([24_000, 48_000]);
  expect(wav.toString('latin1', 36, 40)).toBe('data');
  expect(wav.readUInt32LE(40)).toBe(wav.length - 44);
  expect(wav.length - 44).toBe(28_800 * 2);
});

test('pcm has the samples of the wav, audible and without clipping', async () => {
  const pcm = await speak({ input, response_format: 'pcm' });
  const wav = await speak({ input, response_format: 'wav' });
  expect(pcm.equals(wav.subarray(44))).toBe(true);
  const loudest = Array.from({ length: pcm.length / 2 }, (_, index) =>
    Math.abs(pcm.readInt16LE(index * 2)),
  ).reduce((max, value) => Math.max(max, value), 0);
  expect(loudest).toBeGreaterThan(5_000);
  expect(loudest).toBeLessThan(32_000);
});

test('mp3 is the default and consists of complete MPEG-2 Layer III frames', async () => {
  const response = await post({ input });
  expect(response.headers.get('content-type')).toBe('audio/mpeg');
  const mp3 = Buffer.from(await response.arrayBuffer());
  // 5 notes of 10 frames of 24 ms. At 32 kbit/s and 24 kHz, a frame has 96 bytes.
  expect(mp3.length).toBe(50 * 96);
  for (let index = 0; index < mp3.length; index += 96) {
    // Sync, MPEG-2, Layer III, no checksum, 32 kbit/s, 24 kHz, no padding; then mono.
    expect(mp3.readUIntBE(index, 3)).toBe(0xfff344);
    expect((mp3[index + 3] ?? 0) >> 6).toBe(3);
    // No frame uses bits of the previous one, so notes can be joined in any order.
    expect(mp3[index + 4]).toBe(0);
  }
});

test('longer input gives longer audio, up to 20 s', async () => {
  const seconds = async (text: string) =>
    (await speak({ input: text, response_format: 'pcm' })).length / 48_000;
  expect(await seconds('x')).toBe(0.48);
  expect(await seconds('x'.repeat(100))).toBe(4.8);
  expect(await seconds('x'.repeat(4_096))).toBe(19.92);
  expect(await seconds('😀'.repeat(4_096))).toBe(19.92);
});

test('speed shortens the melody', async () => {
  const slow = await speak({ input: 'x'.repeat(100), speed: 1 });
  const fast = await speak({ input: 'x'.repeat(100), speed: 2 });
  expect(fast.length).toBe(slow.length / 2);
});

test('identical requests give identical audio, and other voices give different audio', async () => {
  const first = await speak({ input });
  expect(first.equals(await speak({ input }))).toBe(true);
  expect(first.equals(await speak({ input, voice: 'nova' }))).toBe(false);
});

test('the body arrives in several chunks', async () => {
  const response = await post({ input: 'x'.repeat(60), demo_delay_ms: 100 });
  let chunks = 0;
  for await (const _ of response.body ?? []) chunks += 1;
  expect(chunks).toBeGreaterThan(1);
});

test('errors for invalid fields name the field', async () => {
  const cases: [object, string][] = [
    [{}, 'input'],
    [{ input: '' }, 'input'],
    [{ input: 'x'.repeat(4_097) }, 'input'],
    [{ input, voice: 7 }, 'voice'],
    [{ input, speed: 5 }, 'speed'],
    [{ input, response_format: 'opus' }, 'response_format'],
    [{ input, response_format: 'aac' }, 'response_format'],
    [{ input, response_format: 'flac' }, 'response_format'],
    [{ input, response_format: 'midi' }, 'response_format'],
    [{ input, stream_format: 'sse' }, 'stream_format'],
  ];
  for (const [body, param] of cases) {
    const response = await post(body);
    const { error } = await readJson<{ error: { param: string } }>(response);
    expect([response.status, error.param]).toEqual([400, param]);
  }
});
