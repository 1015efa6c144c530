import { describe, expect, test } from 'bun:test';
import { parseBuffer } from 'music-metadata';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import {
  aacFile,
  mp3File,
  noteSeconds,
  opusFile,
  opusPreSkip,
  taggedMp3,
  wavFile,
} from '../../../tests/support/audio-files.ts';
import type { SpeechFormat } from '../../core/media/audio.ts';
import { canJoin, joinSpeech } from './join-speech.ts';
import { readOggPages } from './ogg-opus.ts';

async function join(format: SpeechFormat, chunks: readonly Uint8Array[]): Promise<Buffer> {
  const read = async (number: number) => chunks[number] ?? new Uint8Array();
  return Buffer.concat(await Array.fromAsync(joinSpeech(format, chunks.length, read)));
}

async function measure(file: Uint8Array, mimeType: string) {
  return (await parseBuffer(file, { mimeType }, { duration: true })).format;
}

describe('joinSpeech', () => {
  test('writes one WAV header with the total size and all samples in order', async () => {
    const chunks = [wavFile(3), wavFile(1), wavFile(7)];
    const file = await join('wav', chunks);
    const format = await measure(file, 'audio/wav');
    expect(format.duration).toBeCloseTo(11 * noteSeconds, 6);
    expect(format).toMatchObject({ container: 'WAVE', sampleRate: 24_000, numberOfChannels: 1 });
    // 44 bytes of header and 11 notes of 5,760 samples of 2 bytes.
    expect(file.length).toBe(44 + 126_720);
    expect(file.readUInt32LE(4)).toBe(36 + 126_720);
    expect(file.readUInt32LE(40)).toBe(126_720);
    expect(file.subarray(44).equals(Buffer.concat(chunks.map((p) => p.subarray(44))))).toBe(true);
  });

  test('ignores sizes in WAV headers that a streaming encoder left unset', async () => {
    const chunks = [wavFile(2), wavFile(2)].map((chunk, index) => {
      const copy = Buffer.from(chunk);
      copy.writeUInt32LE(index === 0 ? 0xffff_ffff : 0, 40);
      return copy;
    });
    const format = await measure(await join('wav', chunks), 'audio/wav');
    expect(format.duration).toBeCloseTo(4 * noteSeconds, 6);
  });

  test('rejects WAV pieces with different sample rates', async () => {
    const other = Buffer.from(wavFile(1));
    other.writeUInt32LE(44_100, 24);
    const failure = await failureOf(join('wav', [wavFile(1), other]));
    expect(failure.message).toBe(
      "The audio can't be joined: the first piece and piece 2 are in different WAV formats.",
    );
  });

  test('removes tags and seek tables from MP3 pieces', async () => {
    const file = await join('mp3', [taggedMp3(4), mp3File(5), taggedMp3(2)]);
    const format = await measure(file, 'audio/mpeg');
    expect(format.duration).toBeCloseTo(11 * noteSeconds, 3);
    expect(format).toMatchObject({ codec: 'MPEG 2 Layer 3', sampleRate: 24_000 });
    // Every piece repeats the demo's notes. A note has 10 frames of 96 bytes.
    expect(file.length).toBe(11 * 960);
    expect(file.equals(Buffer.concat([mp3File(4), mp3File(5), mp3File(2)]))).toBe(true);
  });

  test('joins an MP3 piece that consists of several files', async () => {
    const junk = Buffer.from('between \xff\xf3 two', 'latin1');
    const chunk = Buffer.concat([taggedMp3(4), taggedMp3(3), junk, mp3File(1)]);
    const file = await join('mp3', [chunk, mp3File(2)]);
    expect(file.equals(Buffer.concat([4, 3, 1, 2].map(mp3File)))).toBe(true);
  });

  test('writes Opus as one stream with continuous page numbers and times', async () => {
    // 25 packets, 50 packets with 400 samples trimmed, and 10 packets with 100 trimmed.
    const chunks = [opusFile(25), opusFile(50, 400, 5), opusFile(10, 100, 6)];
    const file = await join('opus', chunks);
    const format = await measure(file, 'audio/ogg');
    expect(format).toMatchObject({ container: 'Ogg', codec: 'Opus' });
    // Only the last trim remains: 85 packets of 960 samples, minus 100 and the pre-skip.
    expect(format.duration).toBeCloseTo((85 * 960 - 100 - opusPreSkip) / 48_000, 3);
    const granules = readOggPages(file)?.map(({ granule }) => Number(granule) / 960);
    expect(granules?.slice(0, -1)).toEqual([0, 0, 10, 20, 25, 35, 45, 55, 65, 75]);
    expect(granules?.at(-1)).toBe(85 - 100 / 960);
    const starts = [...file.toString('latin1').matchAll(/OggS/g)].map(({ index }) => index);
    expect(starts.map((at) => file.readUInt32LE(at + 14))).toEqual(Array(11).fill(1));
    expect(starts.map((at) => file.readUInt32LE(at + 18))).toEqual([
      0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
    ]);
    // Flags: the first page begins the stream, the last one ends it.
    expect(starts.map((at) => file[at + 5])).toEqual([2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]);
  });

  test('joins an Opus piece that consists of several files', async () => {
    const chain = Buffer.concat([opusFile(25, 0, 5), opusFile(10, 100, 6)]);
    const chained = await join('opus', [chain, opusFile(10), chain]);
    const separate = [opusFile(25), opusFile(10), opusFile(10), opusFile(25), opusFile(10, 100)];
    expect(chained.equals(await join('opus', separate))).toBe(true);
  });

  test('writes the checksum of each Ogg page', async () => {
    const file = await join('opus', [opusFile(1), opusFile(1)]);
    // Bit by bit, as RFC 3533 describes it.
    const checksum = (page: Uint8Array) => {
      let crc = 0n;
      for (const byte of page) {
        crc ^= BigInt(byte) << 24n;
        for (let bit = 0; bit < 8; bit += 1) {
          crc = (crc << 1n) ^ ((crc >> 31n) & 1n ? 0x104c11db7n : 0n);
        }
      }
      return Number(crc);
    };
    const starts = [...file.toString('latin1').matchAll(/OggS/g)].map(({ index }) => index);
    expect(starts.length).toBe(4);
    for (const [index, at] of starts.entries()) {
      const page = Buffer.from(file.subarray(at, starts[index + 1]));
      const written = page.readUInt32LE(22);
      page.writeUInt32LE(0, 22);
      expect(checksum(page)).toBe(written);
    }
  });

  test('concatenates the AAC frames of all pieces', async () => {
    const file = await join('aac', [aacFile(10), aacFile(20)]);
    expect(file.equals(aacFile(30))).toBe(true);
    const format = await measure(file, 'audio/aac');
    expect(format).toMatchObject({ container: 'ADTS/MPEG-4', sampleRate: 24_000 });
  });

  /** Stereo, unlike the demo's mono files, or another sample rate for AAC. */
  const others = {
    mp3: Buffer.from(mp3File(1)).map((byte, index) => (index % 96 === 3 ? byte & 0x3f : byte)),
    opus: Buffer.from(opusFile(1)).map((byte, index, file) =>
      index === Buffer.from(file).indexOf('OpusHead') + 9 ? 2 : byte,
    ),
    aac: Buffer.from(aacFile(1)).map((byte, index) => (index === 2 ? 0x50 : byte)),
  };
  test.each([
    ['MP3', 'mp3', mp3File(1), others.mp3],
    ['Opus', 'opus', opusFile(1), others.opus],
    ['AAC', 'aac', aacFile(1), others.aac],
  ] as const)('rejects %s pieces in different formats', async (name, format, first, other) => {
    const failure = await failureOf(join(format, [first, other]));
    expect(failure.message).toBe(
      `The audio can't be joined: the first piece and piece 2 are in different ${name} formats.`,
    );
  });

  test('rejects an Opus piece that ends after its first header', async () => {
    const [head, second] = [...Buffer.from(opusFile(1)).toString('latin1').matchAll(/OggS/g)];
    const cut = opusFile(1).subarray(head?.index, second?.index);
    const failure = await failureOf(join('opus', [cut, opusFile(1)]));
    expect(failure.message).toBe(
      "The audio can't be joined: the provider's response for piece 1 isn't Opus.",
    );
  });

  // RFC 6716, 3.1: the upper 5 bits encode the length of a frame, the lower 2 the frame count.
  test.each([
    ['hybrid, 1 frame of 20 ms', [0x68, 0xff], 960],
    ['hybrid, 1 frame of 10 ms', [0x60, 0xff], 480],
    ['hybrid, 2 frames of 10 ms', [0x61, 0xff], 960],
    ['hybrid, 5 frames of 10 ms, with the count in the second byte', [0x63, 0x05], 2_400],
    ['SILK, 1 frame of 60 ms', [0x18, 0xff], 2_880],
    ['CELT, 4 frames of 2.5 ms, with the count beside 2 flags', [0x83, 0xc4], 480],
  ])('counts the samples of an Opus packet: %s', async (_, start, samples) => {
    const packet = Buffer.from([0xf8, 0xff, 0xfe]);
    const chunk = Buffer.from(opusFile(1));
    chunk.set(start, chunk.indexOf(packet));
    const pages = readOggPages(await join('opus', [chunk, opusFile(1)]));
    expect(pages?.slice(2).map(({ granule }) => Number(granule))).toEqual([samples, samples + 960]);
  });

  test('concatenates PCM samples', async () => {
    expect(await join('pcm', [Buffer.from([1, 2]), Buffer.from([3, 4])])).toEqual(
      Buffer.from([1, 2, 3, 4]),
    );
  });

  test('returns a single piece unchanged', async () => {
    expect(await join('flac', [Buffer.from('fLaC…')])).toEqual(Buffer.from('fLaC…'));
    expect(await join('mp3', [taggedMp3(2)])).toEqual(Buffer.from(taggedMp3(2)));
  });

  test('joins every format except FLAC, whose frames contain their numbers', () => {
    const formats = ['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm'] as const;
    expect(formats.filter((format) => !canJoin(format))).toEqual(['flac']);
  });

  test.each(['mp3', 'wav', 'opus', 'aac'] as const)(
    'rejects a piece that is not %s',
    async (format) => {
      const failure = await failureOf(join(format, [Buffer.from('<html>'), Buffer.from('x')]));
      expect(failure.message).toMatch(/the provider's response for piece 1 isn't \w+\.$/);
    },
  );
});
