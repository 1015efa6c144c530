import { describe, expect, test } from 'bun:test';
import { parseBuffer } from 'music-metadata';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import {
  aacFile,
  decoratedMp3,
  mp3File,
  noteSeconds,
  opusFile,
  opusPreSkip,
  wavFile,
} from '../../../tests/support/audio-files.ts';
import type { SpeechFormat } from '../../core/media/audio.ts';
import { canJoin, joinSpeech } from './join-speech.ts';
import { readOggPages } from './ogg-opus.ts';

async function join(format: SpeechFormat, pieces: readonly Uint8Array[]): Promise<Buffer> {
  const read = async (number: number) => pieces[number] ?? new Uint8Array();
  return Buffer.concat(await Array.fromAsync(joinSpeech(format, pieces.length, read)));
}

async function measure(file: Uint8Array, mimeType: string) {
  return (await parseBuffer(file, { mimeType }, { duration: true })).format;
}

describe('joined speech', () => {
  test('as WAV has one header with the right sizes, and all samples in order', async () => {
    const pieces = [wavFile(3), wavFile(1), wavFile(7)];
    const file = await join('wav', pieces);
    const format = await measure(file, 'audio/wav');
    expect(format.duration).toBeCloseTo(11 * noteSeconds, 6);
    expect(format).toMatchObject({ container: 'WAVE', sampleRate: 24_000, numberOfChannels: 1 });
    // 11 notes of 5,760 samples of two bytes behind 44 bytes of header.
    expect(file.length).toBe(44 + 126_720);
    expect(file.readUInt32LE(4)).toBe(36 + 126_720);
    expect(file.readUInt32LE(40)).toBe(126_720);
    expect(file.subarray(44).equals(Buffer.concat(pieces.map((p) => p.subarray(44))))).toBe(true);
  });

  test('as WAV believes the bytes, not sizes that a streaming encoder could not know', async () => {
    const pieces = [wavFile(2), wavFile(2)].map((piece, at) => {
      const copy = Buffer.from(piece);
      copy.writeUInt32LE(at === 0 ? 0xffff_ffff : 0, 40);
      return copy;
    });
    const format = await measure(await join('wav', pieces), 'audio/wav');
    expect(format.duration).toBeCloseTo(4 * noteSeconds, 6);
  });

  test('as WAV refuses pieces of another sample rate', async () => {
    const other = Buffer.from(wavFile(1));
    other.writeUInt32LE(44_100, 24);
    const failure = await failureOf(join('wav', [wavFile(1), other]));
    expect(failure.message).toBe(
      'Piece 2 came as another kind of WAV than the first, so the pieces cannot be joined.',
    );
  });

  test('as MP3 is nothing but the frames: no tag and no seek table of one piece', async () => {
    const file = await join('mp3', [decoratedMp3(4), mp3File(5), decoratedMp3(2)]);
    const format = await measure(file, 'audio/mpeg');
    expect(format.duration).toBeCloseTo(11 * noteSeconds, 3);
    expect(format).toMatchObject({ codec: 'MPEG 2 Layer 3', sampleRate: 24_000 });
    // The demo's notes repeat from the first in every piece; 96 bytes a frame, ten to a note.
    expect(file.length).toBe(11 * 960);
    expect(file.equals(Buffer.concat([mp3File(4), mp3File(5), mp3File(2)]))).toBe(true);
  });

  test('as MP3 loses nothing of a piece that is several files in a row', async () => {
    const rubbish = Buffer.from('between \xff\xf3 two', 'latin1');
    const piece = Buffer.concat([decoratedMp3(4), decoratedMp3(3), rubbish, mp3File(1)]);
    const file = await join('mp3', [piece, mp3File(2)]);
    expect(file.equals(Buffer.concat([4, 3, 1, 2].map(mp3File)))).toBe(true);
  });

  test('as Opus is one stream: one serial, pages numbered through, times that go on', async () => {
    // 25 packets, 50 packets with 400 samples trimmed off, 10 packets with 100 trimmed off.
    const pieces = [opusFile(25), opusFile(50, 400, 5), opusFile(10, 100, 6)];
    const file = await join('opus', pieces);
    const format = await measure(file, 'audio/ogg');
    expect(format).toMatchObject({ container: 'Ogg', codec: 'Opus' });
    // Only the last trim is left: 85 packets of 960 samples, less 100 and the pre-skip.
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

  test('as Opus loses nothing of a piece that is several files in a row', async () => {
    const chain = Buffer.concat([opusFile(25, 0, 5), opusFile(10, 100, 6)]);
    const inRow = await join('opus', [chain, opusFile(10), chain]);
    const apart = [opusFile(25), opusFile(10), opusFile(10), opusFile(25), opusFile(10, 100)];
    expect(inRow.equals(await join('opus', apart))).toBe(true);
  });

  test('as Opus has pages with the checksum that the format asks for', async () => {
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
      const told = page.readUInt32LE(22);
      page.writeUInt32LE(0, 22);
      expect(checksum(page)).toBe(told);
    }
  });

  test('as AAC is the frames of all pieces', async () => {
    const file = await join('aac', [aacFile(10), aacFile(20)]);
    expect(file.equals(aacFile(30))).toBe(true);
    const format = await measure(file, 'audio/aac');
    expect(format).toMatchObject({ container: 'ADTS/MPEG-4', sampleRate: 24_000 });
  });

  /** Stereo where the files of the demo are mono; for AAC another sample rate. */
  const others = {
    mp3: Buffer.from(mp3File(1)).map((byte, at) => (at % 96 === 3 ? byte & 0x3f : byte)),
    opus: Buffer.from(opusFile(1)).map((byte, at, file) =>
      at === Buffer.from(file).indexOf('OpusHead') + 9 ? 2 : byte,
    ),
    aac: Buffer.from(aacFile(1)).map((byte, at) => (at === 2 ? 0x50 : byte)),
  };
  test.each([
    ['MP3', 'mp3', mp3File(1), others.mp3],
    ['Opus', 'opus', opusFile(1), others.opus],
    ['AAC', 'aac', aacFile(1), others.aac],
  ] as const)('as %s refuses pieces of another kind', async (name, format, first, other) => {
    const failure = await failureOf(join(format, [first, other]));
    expect(failure.message).toBe(
      `Piece 2 came as another kind of ${name} than the first, so the pieces cannot be joined.`,
    );
  });

  test('as Opus refuses a piece that ends after its first header', async () => {
    const [head, second] = [...Buffer.from(opusFile(1)).toString('latin1').matchAll(/OggS/g)];
    const cut = opusFile(1).subarray(head?.index, second?.index);
    const failure = await failureOf(join('opus', [cut, opusFile(1)]));
    expect(failure.message).toStartWith('Piece 1 came back as something else than Opus');
  });

  // RFC 6716, 3.1: the upper five bits say how long a frame is, the lower two how many there are.
  test.each([
    ['hybrid, one of 20 ms', [0x68, 0xff], 960],
    ['hybrid, one of 10 ms', [0x60, 0xff], 480],
    ['hybrid, two of 10 ms', [0x61, 0xff], 960],
    ['hybrid, five of 10 ms counted in the second byte', [0x63, 0x05], 2_400],
    ['SILK, one of 60 ms', [0x18, 0xff], 2_880],
    ['CELT, four of 2.5 ms counted beside two flags', [0x83, 0xc4], 480],
  ])('as Opus goes on behind all frames of a packet: %s', async (_, start, samples) => {
    const packet = Buffer.from([0xf8, 0xff, 0xfe]);
    const piece = Buffer.from(opusFile(1));
    piece.set(start, piece.indexOf(packet));
    const pages = readOggPages(await join('opus', [piece, opusFile(1)]));
    expect(pages?.slice(2).map(({ granule }) => Number(granule))).toEqual([samples, samples + 960]);
  });

  test('as bare samples has nothing between them', async () => {
    expect(await join('pcm', [Buffer.from([1, 2]), Buffer.from([3, 4])])).toEqual(
      Buffer.from([1, 2, 3, 4]),
    );
  });

  test('of one piece is that piece, whatever it is', async () => {
    expect(await join('flac', [Buffer.from('fLaC…')])).toEqual(Buffer.from('fLaC…'));
    expect(await join('mp3', [decoratedMp3(2)])).toEqual(Buffer.from(decoratedMp3(2)));
  });

  test('cannot be FLAC, whose frames are numbered within', () => {
    const formats = ['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm'] as const;
    expect(formats.filter((format) => !canJoin(format))).toEqual(['flac']);
  });

  test.each(['mp3', 'wav', 'opus', 'aac'] as const)(
    'as %s refuses a piece that is something else',
    async (format) => {
      const failure = await failureOf(join(format, [Buffer.from('<html>'), Buffer.from('x')]));
      expect(failure.message).toMatch(/^Piece 1 came back as something else than \w+, so/);
    },
  );
});
