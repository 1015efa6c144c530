import { describe, expect, test } from 'bun:test';
import { parseBuffer } from 'music-metadata';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { mp3File, taggedMp3, wavFile } from '../../../tests/support/audio-files.ts';
import { planCuts, readCut } from './split-audio.ts';

const mebibyte = 1024 * 1024;

const stored = (bytes: Uint8Array) => ({ bytes: bytes.length, body: new Blob([bytes.slice()]) });

async function seconds(file: Uint8Array, mimeType: string): Promise<number> {
  const { format } = await parseBuffer(file, { mimeType }, { duration: true });
  return format.duration ?? 0;
}

describe('planCuts', () => {
  test('keeps a file of up to 25 MB in one piece, regardless of its format', async () => {
    const file = stored(Buffer.alloc(25 * mebibyte, 7));
    expect(await planCuts(file)).toEqual([{ from: 0, to: 25 * mebibyte, startMs: 0 }]);
  });

  test('cuts WAV between samples into valid files that contain all samples', async () => {
    // 5,000 notes of 240 ms and 11,520 bytes are 20 minutes and 55 MB.
    const file = stored(wavFile(5_000));
    const cuts = await planCuts(file);
    // 24 MiB are 25,165,824 bytes. At 48,000 bytes per second, they last 524,288 ms.
    expect(cuts.map(({ startMs }) => startMs)).toEqual([0, 524_288, 1_048_576]);
    let sum = 0;
    const samples: Uint8Array[] = [];
    for (const cut of cuts) {
      const part = await readCut(file, cut);
      expect(part.length).toBeLessThanOrEqual(25 * mebibyte);
      sum += await seconds(part, 'audio/wav');
      samples.push(part.subarray(44));
    }
    expect(sum).toBeCloseTo(1_200, 6);
    const allSamples = Buffer.from(await file.body.arrayBuffer()).subarray(44);
    expect(Buffer.concat(samples).equals(allSamples)).toBe(true);
  });

  test('limits the number of cuts if a WAV header declares 1 byte per second', async () => {
    const bytes = Buffer.from(wavFile(3_000));
    // Bytes per second, and bytes per sample of all channels.
    bytes.writeUInt32LE(1, 28);
    bytes.writeUInt16LE(1, 32);
    const cuts = await planCuts(stored(bytes));
    // 34,560,000 bytes of samples, 3,000,000 in each cut.
    expect(cuts.length).toBe(12);
    expect([cuts[0]?.from, cuts.at(-1)?.to]).toEqual([44, bytes.length]);
  });

  test('finds the samples of a WAV file after large metadata', async () => {
    const bytes = Buffer.from(wavFile(3_000));
    const metadata = Buffer.alloc(8 + 2 * mebibyte);
    metadata.write('id3 ', 'latin1');
    metadata.writeUInt32LE(2 * mebibyte, 4);
    // The metadata lies between the format chunk and the samples.
    const file = stored(Buffer.concat([bytes.subarray(0, 36), metadata, bytes.subarray(36)]));
    const cuts = await planCuts(file);
    const parts = await Promise.all(cuts.map((cut) => readCut(file, cut)));
    const samples = Buffer.concat(parts.map((part) => part.subarray(44)));
    expect(samples.equals(bytes.subarray(44))).toBe(true);
  });

  test('cuts MP3 between frames into parts of at most 50 minutes', async () => {
    // 30,000 notes of 240 ms and 960 bytes are 2 hours and 28.8 MB.
    const file = stored(mp3File(30_000));
    const cuts = await planCuts(file);
    expect(cuts.map(({ startMs }) => startMs)).toEqual([0, 3_000_000, 6_000_000]);
    let sum = 0;
    for (const cut of cuts) sum += await seconds(await readCut(file, cut), 'audio/mpeg');
    expect(sum).toBeCloseTo(7_200, 2);
  });

  test('cuts MP3 of 320 kbit/s into parts of at most 24 MiB', async () => {
    // MPEG 1, layer 3 at 44.1 kHz has 1,152 samples in 1,044 bytes. 30,000 frames are 31 MB.
    const frame = Buffer.alloc(1_044);
    frame.set([0xff, 0xfb, 0xe0, 0xc0]);
    const file = stored(Buffer.concat(Array(30_000).fill(frame)));
    // 24,105 complete frames fit into 25,165,824 bytes. They last 629,681.6 ms.
    expect(await planCuts(file)).toEqual([
      { from: 0, to: 24_105 * 1_044, startMs: 0 },
      { from: 24_105 * 1_044, to: 30_000 * 1_044, startMs: 629_682 },
    ]);
  });

  test('drops the tag of an MP3 file and the bytes after its last frame', async () => {
    const file = stored(Buffer.concat([taggedMp3(30_000), Buffer.alloc(50_000)]));
    const cuts = await planCuts(file);
    expect(cuts.length).toBe(3);
    const parts = await Promise.all(cuts.map((cut) => readCut(file, cut)));
    const audio = Buffer.from(mp3File(30_000));
    expect(Buffer.concat(parts).includes(audio.subarray(0, 960_000))).toBe(true);
    expect(parts[0]?.subarray(0, 2)).toEqual(Buffer.from([0xff, 0xf3]));
  });

  test('drops the seek table of an MP3 file, which describes the uncut file', async () => {
    const file = stored(taggedMp3(30_000));
    const cuts = await planCuts(file);
    const parts = await Promise.all(cuts.map((cut) => readCut(file, cut)));
    // 50 minutes are 12,500 notes of 960 bytes.
    expect(parts[0]?.length).toBe(12_500 * 960);
    expect(Buffer.concat(parts).indexOf('Xing')).toBe(-1);
  });

  test.each([
    ['an Ogg file', (file: Buffer) => file.write('OggS')],
    ['noise', (file: Buffer) => crypto.getRandomValues(file.subarray(0, 65_536))],
    ['zero bytes', () => {}],
  ])('rejects a file over 25 MB of another format: %s', async (_, fill) => {
    const file = Buffer.alloc(26 * mebibyte);
    fill(file);
    const failure = await failureOf(planCuts(stored(file)));
    expect(failure.message).toBe(
      "Files over 25 MiB must be wav or mp3, because other formats can't be split.",
    );
  });
});
