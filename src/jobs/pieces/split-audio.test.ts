import { describe, expect, test } from 'bun:test';
import { parseBuffer } from 'music-metadata';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { decoratedMp3, mp3File, wavFile } from '../../../tests/support/audio-files.ts';
import { planCuts, readCut } from './split-audio.ts';

const mebibyte = 1024 * 1024;

const stored = (bytes: Uint8Array) => ({ bytes: bytes.length, body: new Blob([bytes.slice()]) });

async function seconds(file: Uint8Array, mimeType: string): Promise<number> {
  const { format } = await parseBuffer(file, { mimeType }, { duration: true });
  return format.duration ?? 0;
}

describe('a recording is cut', () => {
  test('not at all up to 25 MB, whatever it is', async () => {
    const file = stored(Buffer.alloc(25 * mebibyte, 7));
    expect(await planCuts(file)).toEqual([{ from: 0, to: 25 * mebibyte, startMs: 0 }]);
  });

  test('by samples when it is WAV: every part plays, and together they are the whole', async () => {
    // 5,000 notes of 240 ms and 11,520 bytes: twenty minutes, 55 MB.
    const file = stored(wavFile(5_000));
    const cuts = await planCuts(file);
    // 24 MiB are 25,165,824 bytes of 48,000 each second: 524,288 ms.
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
    const whole = Buffer.from(await file.body.arrayBuffer()).subarray(44);
    expect(Buffer.concat(samples).equals(whole)).toBe(true);
  });

  test('into few parts though its WAV head tells of a byte a second', async () => {
    const bytes = Buffer.from(wavFile(3_000));
    // Bytes a second, and those of one moment.
    bytes.writeUInt32LE(1, 28);
    bytes.writeUInt16LE(1, 32);
    const cuts = await planCuts(stored(bytes));
    // 34,560,000 bytes of samples, 3,000,000 in each part.
    expect(cuts.length).toBe(12);
    expect([cuts[0]?.from, cuts.at(-1)?.to]).toEqual([44, bytes.length]);
  });

  test('by samples, whatever pictures and notes stand in front of them', async () => {
    const bytes = Buffer.from(wavFile(3_000));
    const notes = Buffer.alloc(8 + 2 * mebibyte);
    notes.write('id3 ', 'latin1');
    notes.writeUInt32LE(2 * mebibyte, 4);
    // Between the format and the samples, which have 44 bytes in front of them.
    const file = stored(Buffer.concat([bytes.subarray(0, 36), notes, bytes.subarray(36)]));
    const cuts = await planCuts(file);
    const parts = await Promise.all(cuts.map((cut) => readCut(file, cut)));
    const samples = Buffer.concat(parts.map((part) => part.subarray(44)));
    expect(samples.equals(bytes.subarray(44))).toBe(true);
  });

  test('by frames when it is MP3, at most fifty minutes in one part', async () => {
    // 30,000 notes of 240 ms and 960 bytes: two hours, 28.8 MB.
    const file = stored(mp3File(30_000));
    const cuts = await planCuts(file);
    expect(cuts.map(({ startMs }) => startMs)).toEqual([0, 3_000_000, 6_000_000]);
    let sum = 0;
    for (const cut of cuts) sum += await seconds(await readCut(file, cut), 'audio/mpeg');
    expect(sum).toBeCloseTo(7_200, 2);
  });

  test('by frames when it is MP3 of 320 kbit/s, at most 24 MiB in one part', async () => {
    // MPEG 1, layer 3 at 44.1 kHz: 1,152 samples in 1,044 bytes. 30,000 frames are 31 MB.
    const frame = Buffer.alloc(1_044);
    frame.set([0xff, 0xfb, 0xe0, 0xc0]);
    const file = stored(Buffer.concat(Array(30_000).fill(frame)));
    // 24,105 whole frames fit into 25,165,824 bytes; they last 629,681.6 ms.
    expect(await planCuts(file)).toEqual([
      { from: 0, to: 24_105 * 1_044, startMs: 0 },
      { from: 24_105 * 1_044, to: 30_000 * 1_044, startMs: 629_682 },
    ]);
  });

  test('behind the tag of an MP3 file, and without what follows its last frame', async () => {
    const file = stored(Buffer.concat([decoratedMp3(30_000), Buffer.alloc(50_000)]));
    const cuts = await planCuts(file);
    expect(cuts.length).toBe(3);
    const parts = await Promise.all(cuts.map((cut) => readCut(file, cut)));
    const sound = Buffer.from(mp3File(30_000));
    expect(Buffer.concat(parts).includes(sound.subarray(0, 960_000))).toBe(true);
    expect(parts[0]?.subarray(0, 2)).toEqual(Buffer.from([0xff, 0xf3]));
  });

  test('without the table in front of an MP3 file, which is about the whole', async () => {
    const file = stored(decoratedMp3(30_000));
    const cuts = await planCuts(file);
    const parts = await Promise.all(cuts.map((cut) => readCut(file, cut)));
    // Fifty minutes are 12,500 notes of 960 bytes.
    expect(parts[0]?.length).toBe(12_500 * 960);
    expect(Buffer.concat(parts).indexOf('Xing')).toBe(-1);
  });

  test.each([
    ['an Ogg file', (file: Buffer) => file.write('OggS')],
    ['noise', (file: Buffer) => crypto.getRandomValues(file.subarray(0, 65_536))],
    ['nothing but zeros', () => {}],
  ])('never when it is %s', async (_, fill) => {
    const file = Buffer.alloc(26 * mebibyte);
    fill(file);
    const failure = await failureOf(planCuts(stored(file)));
    expect(failure.message).toBe(
      'Only wav and mp3 files can be cut for transcription, and this one is neither; ' +
        'send other formats in files of at most 25 MB.',
    );
  });
});
