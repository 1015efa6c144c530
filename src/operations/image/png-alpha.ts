import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createInflate } from 'node:zlib';
import { pngSignature } from '../../core/media/png-chunk.ts';
import type { LongBytes } from '../../core/upload.ts';
import { ByteReader } from '../byte-reader.ts';
import { type PngHeader, type PngPass, readHeader } from './png-layout.ts';
import { PngRows } from './png-rows.ts';

/** Where a picture is opaque: one byte for each pixel, row by row. */
export interface Coverage {
  readonly width: number;
  readonly height: number;
  /** 1 where alpha is at least a half. */
  readonly isOpaque: Uint8Array;
}

/** Why a file is no picture with transparency. */
export type NoAlpha = 'not-png' | 'no-alpha' | 'too-large' | 'broken';

const opaqueFrom = 128;
/** The longest `tRNS`: an alpha for each of 256 colours. */
const transparencyBytesMax = 256;

/**
 * Reads only the transparency of a PNG, while the file comes. Unpacking happens on another thread
 * and stops at the picture's end: a file that unpacks to more is broken.
 */
export async function readCoverage(
  file: LongBytes,
  pixelsMax: number,
): Promise<Coverage | NoAlpha> {
  const reader = new ByteReader(file.chunks());
  try {
    if (!(await reader.take(pngSignature.length))?.equals(pngSignature)) return 'not-png';
    const found = await readBeforePixels(reader);
    if (found === undefined) return 'broken';
    const { header, transparency, pixelBytes } = found;
    if (header.width * header.height > pixelsMax) return 'too-large';
    const alpha = alphaOf(header, transparency);
    if (alpha === undefined) return 'no-alpha';
    const { width, height } = header;
    const isOpaque = new Uint8Array(width * height);
    const rows = new PngRows(header, (row, y, pass) => mark(isOpaque, row, y, pass, width, alpha));
    await unpack(pixelData(reader, pixelBytes), rows);
    return rows.isComplete ? { width, height, isOpaque } : 'broken';
  } catch {
    return 'broken';
  } finally {
    await reader.close();
  }
}

/** What stands before the first chunk of pixels, and how long that chunk is. */
async function readBeforePixels(reader: ByteReader) {
  const start = await reader.take(8 + 13 + 4);
  if (start?.readUInt32BE(0) !== 13 || start.toString('latin1', 4, 8) !== 'IHDR') return undefined;
  const header = readHeader(start.subarray(8, 21));
  let transparency: Buffer | undefined;
  for (;;) {
    const head = await reader.take(8);
    if (!header || !head) return undefined;
    const [length, type] = [head.readUInt32BE(0), head.toString('latin1', 4)];
    if (type === 'IDAT') return { header, transparency, pixelBytes: length };
    if (type === 'IEND') return undefined;
    if (type === 'tRNS' && length <= transparencyBytesMax) {
      transparency = await reader.take(length);
      await reader.skip(4);
    } else {
      await reader.skip(length + 4);
    }
  }
}

async function* pixelData(reader: ByteReader, firstBytes: number): AsyncGenerator<Uint8Array> {
  for (let length = firstBytes; ; ) {
    yield* reader.some(length);
    await reader.skip(4);
    const head = await reader.take(8);
    if (head?.toString('latin1', 4) !== 'IDAT') return;
    length = head.readUInt32BE(0);
  }
}

async function unpack(packed: AsyncIterable<Uint8Array>, rows: PngRows): Promise<void> {
  const inflate = createInflate({ chunkSize: 128 * 1024 });
  await pipeline(Readable.from(packed), inflate, async (unpacked: AsyncIterable<Uint8Array>) => {
    for await (const bytes of unpacked) {
      if (!rows.push(bytes)) throw new Error('The picture is larger than its header says.');
    }
  });
}

/** The alpha of one pixel of a row, from 0 to 255. */
type AlphaAt = (row: Uint8Array, x: number) => number;

/** Reads a pixel's alpha from a row; undefined when the picture has no transparency at all. */
function alphaOf(header: PngHeader, transparency: Buffer | undefined): AlphaAt | undefined {
  const { colour, depth } = header;
  const bytes = depth / 8;
  switch (colour) {
    case 'rgb+alpha':
      return (row, x) => row[(x * 4 + 3) * bytes] ?? 0;
    case 'grey+alpha':
      return (row, x) => row[(x * 2 + 1) * bytes] ?? 0;
    case 'indexed':
      return transparency && ((row, x) => transparency[sampleAt(row, x, depth)] ?? 255);
    case 'grey':
      return keyedAlpha(transparency, 1, depth);
    case 'rgb':
      return keyedAlpha(transparency, 3, depth);
  }
}

/** For pictures in which one colour stands for transparent. */
function keyedAlpha(key: Buffer | undefined, samples: number, depth: number): AlphaAt | undefined {
  if (key?.length !== samples * 2) return undefined;
  const wanted = Array.from({ length: samples }, (_, at) => key.readUInt16BE(at * 2));
  return (row, x) => {
    const isKey = wanted.every((value, at) => sampleAt(row, x * samples + at, depth) === value);
    return isKey ? 0 : 255;
  };
}

function sampleAt(row: Uint8Array, at: number, depth: number): number {
  if (depth === 8) return row[at] ?? 0;
  if (depth === 16) return ((row[at * 2] ?? 0) << 8) | (row[at * 2 + 1] ?? 0);
  const bit = at * depth;
  return ((row[bit >> 3] ?? 0) >> (8 - depth - (bit & 7))) & ((1 << depth) - 1);
}

function mark(
  isOpaque: Uint8Array,
  row: Uint8Array,
  y: number,
  { x, dx, width }: PngPass,
  pictureWidth: number,
  alpha: AlphaAt,
): void {
  const start = y * pictureWidth + x;
  for (let at = 0; at < width; at += 1) {
    if (alpha(row, at) >= opaqueFrom) isOpaque[start + at * dx] = 1;
  }
}
