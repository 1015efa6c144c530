/** Creates small, valid audio files of known duration. */
import { mp3Note, pcmNote, wavHeader } from '../../src/demo/speech.ts';
import { type OggPage, writeOggPage } from '../../src/jobs/pieces/ogg-opus.ts';

/** The demo's notes are 240 ms of mono audio at 24 kHz. */
export const noteSeconds = 0.24;

export function wavFile(notes: number): Uint8Array {
  return Buffer.concat([wavHeader(notes), ...notesOf(notes, pcmNote)]);
}

/** Returns an MP3 file without tags. */
export function mp3File(notes: number): Uint8Array {
  return Buffer.concat(notesOf(notes, mp3Note));
}

/** Returns an MP3 file with tags at both ends and a seek table, as encoders write them. */
export function taggedMp3(notes: number): Uint8Array {
  const title = Buffer.from('\x00\x00\x00\x00A title', 'latin1');
  const frame = Buffer.concat([Buffer.from('TIT2\x00\x00\x00\x07', 'latin1'), title.subarray(2)]);
  const id3 = Buffer.concat([
    Buffer.from([0x49, 0x44, 0x33, 4, 0, 0, 0, 0, 0, frame.length]),
    frame,
  ]);
  // A frame like the first, but with a seek table instead of audio after its side information.
  const [first = new Uint8Array()] = notesOf(1, mp3Note);
  const table = Buffer.alloc(96);
  table.set(first.subarray(0, 4));
  table.write('Xing', 13, 'latin1');
  table.writeUInt32BE(1, 17);
  table.writeUInt32BE(notes * 10, 21);
  const id3v1 = Buffer.alloc(128);
  id3v1.write('TAG', 0, 'latin1');
  return Buffer.concat([id3, table, mp3File(notes), id3v1]);
}

function notesOf(notes: number, encode: (note: number) => Uint8Array): Uint8Array[] {
  return Array.from({ length: notes }, (_, index) => encode(index % 5));
}

export const opusPreSkip = 312;

/** Returns silence in packets of 20 ms, 10 per page, without the last `trimSamples` samples. */
export function opusFile(packets: number, trimSamples = 0, serial = 77): Uint8Array {
  const head = Buffer.alloc(19);
  head.write('OpusHead', 0, 'latin1');
  head.set([1, 1], 8);
  head.writeUInt16LE(opusPreSkip, 10);
  head.writeUInt32LE(24_000, 12);
  const tags = Buffer.from('OpusTags\x00\x00\x00\x00\x00\x00\x00\x00', 'latin1');
  const pages: OggPage[] = [pageOf([head], 0n), pageOf([tags], 0n)];
  const silence = Uint8Array.of(0xf8, 0xff, 0xfe);
  for (let index = 0; index < packets; index += 10) {
    const here = Math.min(10, packets - index);
    const isLast = index + here === packets;
    const end = BigInt((index + here) * 960 - (isLast ? trimSamples : 0));
    pages.push(pageOf(Array(here).fill(silence), end));
  }
  return Buffer.concat(
    pages.map((page, sequence) => {
      const [isFirst, isLast] = [sequence === 0, sequence === pages.length - 1];
      return writeOggPage(page, { serial, sequence, isFirst, isLast });
    }),
  );
}

function pageOf(packets: readonly Uint8Array[], granule: bigint): OggPage {
  return {
    isContinued: false,
    granule,
    lacing: Uint8Array.from(packets, ({ length }) => length),
    body: Buffer.concat(packets),
  };
}

/** Returns AAC in ADTS frames of 1024 samples at 24 kHz. Only the headers are valid. */
export function aacFile(frames: number): Uint8Array {
  const frame = Buffer.alloc(64, 0x21);
  frame.set([0xff, 0xf1, 0x58, 0x40, 64 >> 3, ((64 & 7) << 5) | 0x1f, 0xfc]);
  return Buffer.concat(Array(frames).fill(frame));
}
