import { afterAll, expect, test } from 'bun:test';
import { startDemoUpstream } from './server.ts';

const demo = startDemoUpstream();
afterAll(() => demo.stop());

async function readJson<Shape>(response: Response): Promise<Shape> {
  return (await response.json()) as Shape;
}

async function speak(format: string): Promise<Uint8Array<ArrayBuffer>> {
  const response = await fetch(`${demo.url}/audio/speech`, {
    method: 'POST',
    body: JSON.stringify({ input: 'x'.repeat(50), response_format: format }),
  });
  return new Uint8Array(await response.arrayBuffer());
}

function post(
  file: Uint8Array<ArrayBuffer> | null,
  name: string,
  fields: [string, string][] = [],
): Promise<Response> {
  const form = new FormData();
  form.set('model', 'demo-transcribe');
  if (file !== null) form.set('file', new Blob([file]), name);
  for (const [field, value] of fields) form.append(field, value);
  return fetch(`${demo.url}/audio/transcriptions`, { method: 'POST', body: form });
}

interface Verbose {
  duration: number;
  segments: object[];
  words: object[];
}

async function duration(file: Uint8Array<ArrayBuffer>): Promise<number> {
  return (await readJson<Verbose>(await post(file, 'sound'))).duration;
}

test("json reports the file's name, size, and length", async () => {
  const wav = await speak('wav');
  const reply = await readJson<object>(await post(wav, 'memo.wav'));
  expect(reply).toEqual({
    text:
      'This is the Tollgate demo; no speech was recognized. ' +
      `The file "memo.wav" has ${wav.length} bytes and lasts 2.4 s.`,
    duration: 2.4,
    usage: { type: 'duration', seconds: 3 },
  });
});

test('the length of an MP3 is the length of its frames, with or without a tag', async () => {
  const mp3 = await speak('mp3');
  expect(await duration(mp3)).toBe(2.4);
  const tag = Buffer.concat([
    Buffer.from('ID3\x04\x00\x00\x00\x00\x02\x00', 'latin1'),
    Buffer.alloc(256, 0xff),
  ]);
  expect(await duration(new Uint8Array(Buffer.concat([tag, mp3])))).toBe(2.4);
});

test('the length of an MP3 with a variable bit rate is the sum of its frames', async () => {
  // 44.1 kHz stereo, 1,152 samples each: 417 bytes at 128 kbit/s, 1,044 at 320 kbit/s.
  const small = Buffer.alloc(417);
  small.writeUInt32BE(0xfffb9000);
  const large = Buffer.alloc(1_044);
  large.writeUInt32BE(0xfffbe000);
  const file = Buffer.concat([...Array(50).fill(small), ...Array(50).fill(large)]);
  expect(await duration(new Uint8Array(file))).toBe(2.612);
});

test('the length of a streamed WAV without sizes is the length of its data', async () => {
  for (const size of [0, 0xffff_ffff]) {
    const wav = await speak('wav');
    new DataView(wav.buffer).setUint32(40, size, true);
    expect(await duration(wav)).toBe(2.4);
  }
});

test('the length of other files is estimated from their size', async () => {
  expect(await duration(new Uint8Array(32_000))).toBe(2);
});

test('text returns plain text', async () => {
  const response = await post(new Uint8Array(16), 'a.ogg', [['response_format', 'text']]);
  expect(response.headers.get('content-type')).toStartWith('text/plain');
  expect(await response.text()).toEndWith('lasts 0.001 s.\n');
});

test('srt has numbered cues that cover the file', async () => {
  const response = await post(await speak('wav'), 'a.wav', [['response_format', 'srt']]);
  const cues = (await response.text()).split('\n\n');
  expect(cues[0]).toMatch(/^1\n00:00:00,000 --> (00:00:01,\d{3})\nThis is the Tollgate demo/);
  expect(cues[1]).toMatch(/^2\n00:00:01,\d{3} --> 00:00:02,400\nThe file "a\.wav"/);
  expect(cues[2]).toBe('');
});

test('vtt has its header, dots in times, and its content type', async () => {
  const response = await post(new Uint8Array(16_000 * 3_661), 'long.ogg', [
    ['response_format', 'vtt'],
  ]);
  expect(response.headers.get('content-type')).toStartWith('text/vtt');
  const text = await response.text();
  expect(text).toStartWith('WEBVTT\n\n00:00:00.000 --> ');
  expect(text).toContain(' --> 01:01:01.000\n');
});

test('verbose_json has segments, or words if only words are requested', async () => {
  const verbose: [string, string] = ['response_format', 'verbose_json'];
  const wav = await speak('wav');
  const segments = await readJson<Verbose>(await post(wav, 'a.wav', [verbose]));
  expect(segments).toMatchObject({ task: 'transcribe', language: 'english', duration: 2.4 });
  expect(segments.segments).toHaveLength(2);
  expect(segments.segments[1]).toMatchObject({ id: 1, end: 2.4 });
  expect(segments).not.toHaveProperty('words');
  const words = await readJson<Verbose>(
    await post(wav, 'a.wav', [verbose, ['timestamp_granularities[]', 'word']]),
  );
  expect(words).not.toHaveProperty('segments');
  expect(words.words[0]).toMatchObject({ word: 'This', start: 0 });
  expect(words.words.at(-1)).toMatchObject({ end: 2.4 });
});

test('control characters in a file name become spaces in subtitles', async () => {
  const response = await post(new Uint8Array(16), 'a\tb.ogg', [['response_format', 'srt']]);
  expect(await response.text()).toContain('"a b.ogg"');
});

test('errors for a missing file, an empty file, or an unknown format name the field', async () => {
  const cases: [Parameters<typeof post>, string][] = [
    [[null, ''], 'file'],
    [[new Uint8Array(), 'a.wav'], 'file'],
    [[new Uint8Array(16), 'a.wav', [['response_format', 'xml']]], 'response_format'],
  ];
  for (const [parts, param] of cases) {
    const response = await post(...parts);
    const { error } = await readJson<{ error: { param: string } }>(response);
    expect([response.status, error.param]).toEqual([400, param]);
  }
});
