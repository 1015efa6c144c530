import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createDeflate, createInflate } from 'node:zlib';
import type { StreamedContent } from '../../core/form.ts';
import { ByteReader } from '../../core/media/byte-reader.ts';
import { pngChunk, pngFile, pngSignature } from '../../core/media/images.ts';

// Reads and writes PNG files: https://www.w3.org/TR/png-3/.

interface PngHeader {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly color: ColorKind['color'];
  readonly bitsPerPixel: number;
  readonly isInterlaced: boolean;
}

interface ColorKind {
  readonly color: 'gray' | 'rgb' | 'indexed' | 'gray+alpha' | 'rgb+alpha';
  readonly channels: number;
  readonly depths: readonly number[];
}

const kinds: ReadonlyMap<number, ColorKind> = new Map([
  [0, { color: 'gray', channels: 1, depths: [1, 2, 4, 8, 16] }],
  [2, { color: 'rgb', channels: 3, depths: [8, 16] }],
  [3, { color: 'indexed', channels: 1, depths: [1, 2, 4, 8] }],
  [4, { color: 'gray+alpha', channels: 2, depths: [8, 16] }],
  [6, { color: 'rgb+alpha', channels: 4, depths: [8, 16] }],
]);

/** Returns undefined if the 13 bytes aren't a valid header. */
function readHeader(ihdr: Buffer): PngHeader | undefined {
  const [width, height, depth] = [ihdr.readUInt32BE(0), ihdr.readUInt32BE(4), ihdr.readUInt8(8)];
  const kind = kinds.get(ihdr.readUInt8(9));
  const [compression, filter, interlace] = [ihdr[10], ihdr[11], ihdr[12] ?? 0];
  const isKnown = compression === 0 && filter === 0 && interlace <= 1 && width > 0 && height > 0;
  if (!kind?.depths.includes(depth) || !isKnown) return undefined;
  const { color, channels } = kind;
  const isInterlaced = interlace === 1;
  return { width, height, depth, color, bitsPerPixel: channels * depth, isInterlaced };
}

/** One pass over the image: every `dx`th pixel of every `dy`th row, from a starting pixel. */
interface PngPass {
  readonly x: number;
  readonly y: number;
  readonly dx: number;
  readonly dy: number;
  readonly width: number;
  readonly height: number;
  readonly rowBytes: number;
}

const singlePass = [[0, 0, 1, 1]] as const;
const adam7 = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;

/** Returns the passes of an image that have pixels: up to 7 if it is interlaced, otherwise 1. */
function passesOf(header: PngHeader): readonly PngPass[] {
  const passes = header.isInterlaced ? adam7 : singlePass;
  return passes
    .map(([x, y, dx, dy]) => {
      const width = Math.ceil((header.width - x) / dx);
      const height = Math.ceil((header.height - y) / dy);
      const rowBytes = Math.ceil((width * header.bitsPerPixel) / 8);
      return { x, y, dx, dy, width, height, rowBytes };
    })
    .filter(({ width, height }) => width > 0 && height > 0);
}

/** Splits inflated bytes into rows, one at a time. Keeps at most two rows in memory. */
class PngRows {
  readonly #passes: readonly PngPass[];
  readonly #bytesPerPixel: number;
  readonly #onRow: (row: Uint8Array, y: number, pass: PngPass) => void;
  #pass = 0;
  #row = 0;
  #above: Uint8Array;
  #current: Uint8Array;
  /** Bytes of the current row received so far, including its filter byte. */
  #filled = 0;

  constructor(header: PngHeader, onRow: (row: Uint8Array, y: number, pass: PngPass) => void) {
    this.#passes = passesOf(header);
    this.#bytesPerPixel = Math.max(1, header.bitsPerPixel / 8);
    this.#onRow = onRow;
    const [first] = this.#passes;
    this.#above = new Uint8Array(first?.rowBytes ?? 0);
    this.#current = new Uint8Array((first?.rowBytes ?? 0) + 1);
  }

  get isComplete(): boolean {
    return this.#pass >= this.#passes.length;
  }

  /** Returns false if there are more bytes than pixels, or a row has an invalid filter. */
  push(bytes: Uint8Array): boolean {
    for (let index = 0; index < bytes.length; ) {
      if (this.isComplete) return false;
      const chunk = bytes.subarray(index, index + this.#current.length - this.#filled);
      this.#current.set(chunk, this.#filled);
      this.#filled += chunk.length;
      index += chunk.length;
      if (this.#filled === this.#current.length && !this.#finishRow()) return false;
    }
    return true;
  }

  #finishRow(): boolean {
    const pass = this.#passes[this.#pass];
    const row = this.#current.subarray(1);
    if (!pass || !unfilter(this.#current[0] ?? 0, row, this.#above, this.#bytesPerPixel))
      return false;
    this.#onRow(row, pass.y + this.#row * pass.dy, pass);
    this.#above = row;
    this.#row += 1;
    this.#filled = 0;
    if (this.#row < pass.height) {
      this.#current = new Uint8Array(pass.rowBytes + 1);
      return true;
    }
    this.#row = 0;
    this.#pass += 1;
    const { rowBytes } = this.#passes[this.#pass] ?? { rowBytes: 0 };
    this.#above = new Uint8Array(rowBytes);
    this.#current = new Uint8Array(rowBytes + 1);
    return true;
  }
}

/**
 * Undoes the filter of a row, whose bytes are differences from neighboring pixels. Returns false
 * for an unknown filter.
 */
function unfilter(
  kind: number,
  row: Uint8Array,
  above: Uint8Array,
  bytesPerPixel: number,
): boolean {
  if (kind > 4) return false;
  if (kind === 0) return true;
  for (let index = 0; index < row.length; index += 1) {
    const left = index < bytesPerPixel ? 0 : (row[index - bytesPerPixel] ?? 0);
    const up = above[index] ?? 0;
    const upperLeft = index < bytesPerPixel ? 0 : (above[index - bytesPerPixel] ?? 0);
    row[index] = (row[index] ?? 0) + predict(kind, left, up, upperLeft);
  }
  return true;
}

function predict(kind: number, left: number, up: number, upperLeft: number): number {
  if (kind === 1) return left;
  if (kind === 2) return up;
  if (kind === 3) return (left + up) >> 1;
  const [toLeft, toUp] = [Math.abs(up - upperLeft), Math.abs(left - upperLeft)];
  const toUpperLeft = Math.abs(left + up - 2 * upperLeft);
  if (toLeft <= toUp && toLeft <= toUpperLeft) return left;
  return toUp <= toUpperLeft ? up : upperLeft;
}

/** The opaque pixels of an image: one byte for each pixel, row by row. */
export interface Coverage {
  readonly width: number;
  readonly height: number;
  /** 1 where alpha is at least one half. */
  readonly isOpaque: Uint8Array;
}

/** Why the transparency of a file can't be read. */
export type AlphaProblem = 'not-png' | 'no-alpha' | 'too-large' | 'broken';

const opaqueThreshold = 128;
/** The longest valid `tRNS` chunk: an alpha value for each of 256 colors. */
const transparencyBytesMax = 256;

/**
 * Reads the transparency of a PNG while it is streamed from its source. Inflating runs on another
 * thread and stops at the last pixel. If a file contains more data, it is damaged.
 */
export async function readCoverage(
  file: StreamedContent,
  pixelsMax: number,
): Promise<Coverage | AlphaProblem> {
  const reader = new ByteReader(file.chunks());
  try {
    if (!(await reader.take(pngSignature.length))?.equals(pngSignature)) return 'not-png';
    const preamble = await readPreamble(reader);
    if (preamble === undefined) return 'broken';
    const { header, transparency, pixelBytes } = preamble;
    if (header.width * header.height > pixelsMax) return 'too-large';
    const alpha = alphaReader(header, transparency);
    if (alpha === undefined) return 'no-alpha';
    const { width, height } = header;
    const isOpaque = new Uint8Array(width * height);
    const rows = new PngRows(header, (row, y, pass) =>
      markOpaque(isOpaque, row, y, pass, width, alpha),
    );
    await inflateRows(readPixelData(reader, pixelBytes), rows);
    return rows.isComplete ? { width, height, isOpaque } : 'broken';
  } catch {
    return 'broken';
  } finally {
    await reader.close();
  }
}

/** Reads the chunks before the pixels, and the length of the first pixel chunk. */
async function readPreamble(reader: ByteReader) {
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

async function* readPixelData(reader: ByteReader, firstBytes: number): AsyncGenerator<Uint8Array> {
  for (let length = firstBytes; ; ) {
    yield* reader.readUpTo(length);
    await reader.skip(4);
    const head = await reader.take(8);
    if (head?.toString('latin1', 4) !== 'IDAT') return;
    length = head.readUInt32BE(0);
  }
}

async function inflateRows(compressed: AsyncIterable<Uint8Array>, rows: PngRows): Promise<void> {
  const inflate = createInflate({ chunkSize: 128 * 1024 });
  await pipeline(
    Readable.from(compressed),
    inflate,
    async (inflated: AsyncIterable<Uint8Array>) => {
      for await (const bytes of inflated) {
        if (!rows.push(bytes)) throw new Error('The image is larger than its header says.');
      }
    },
  );
}

/** Returns the alpha of one pixel of a row, from 0 to 255. */
type AlphaAt = (row: Uint8Array, x: number) => number;

/** Returns a reader of alpha values, or undefined if the image has no transparency. */
function alphaReader(header: PngHeader, transparency: Buffer | undefined): AlphaAt | undefined {
  const { color, depth } = header;
  const bytes = depth / 8;
  switch (color) {
    case 'rgb+alpha':
      return (row, x) => row[(x * 4 + 3) * bytes] ?? 0;
    case 'gray+alpha':
      return (row, x) => row[(x * 2 + 1) * bytes] ?? 0;
    case 'indexed':
      return transparency && ((row, x) => transparency[sampleAt(row, x, depth)] ?? 255);
    case 'gray':
      return keyedAlpha(transparency, 1, depth);
    case 'rgb':
      return keyedAlpha(transparency, 3, depth);
  }
}

/** Returns a reader for images in which one color means transparent. */
function keyedAlpha(key: Buffer | undefined, samples: number, depth: number): AlphaAt | undefined {
  if (key?.length !== samples * 2) return undefined;
  const keySamples = Array.from({ length: samples }, (_, index) => key.readUInt16BE(index * 2));
  return (row, x) => {
    const isKey = keySamples.every(
      (value, index) => sampleAt(row, x * samples + index, depth) === value,
    );
    return isKey ? 0 : 255;
  };
}

function sampleAt(row: Uint8Array, at: number, depth: number): number {
  if (depth === 8) return row[at] ?? 0;
  if (depth === 16) return ((row[at * 2] ?? 0) << 8) | (row[at * 2 + 1] ?? 0);
  const bit = at * depth;
  return ((row[bit >> 3] ?? 0) >> (8 - depth - (bit & 7))) & ((1 << depth) - 1);
}

function markOpaque(
  isOpaque: Uint8Array,
  row: Uint8Array,
  y: number,
  { x, dx, width }: PngPass,
  imageWidth: number,
  alpha: AlphaAt,
): void {
  const start = y * imageWidth + x;
  for (let index = 0; index < width; index += 1) {
    if (alpha(row, index) >= opaqueThreshold) isOpaque[start + index * dx] = 1;
  }
}

/** Rows are compressed in blocks of about this size. */
const blockBytes = 256 * 1024;

/** An image with 8 bits per sample. */
export interface PngImage {
  readonly width: number;
  readonly height: number;
  readonly color: 'gray' | 'rgb+alpha';
  /** Fills in the samples of one row. They are 0 at first. */
  fill(row: Uint8Array, y: number): void;
}

/** Writes a PNG that every program can read: 8 bits per sample, not interlaced. */
export async function writePng(image: PngImage): Promise<Uint8Array> {
  const compressed = Readable.from(rowBlocks(image)).pipe(createDeflate({ chunkSize: 64 * 1024 }));
  const pixels = Buffer.concat(await Array.fromAsync(compressed as AsyncIterable<Uint8Array>));
  return pngFile(image, image.color === 'gray' ? 0 : 6, [pngChunk('IDAT', pixels)]);
}

function* rowBlocks({ width, height, color, fill }: PngImage): Generator<Uint8Array> {
  // The byte before each row names its filter: 0 for none.
  const rowBytes = 1 + width * (color === 'gray' ? 1 : 4);
  const rowsAtOnce = Math.max(1, Math.floor(blockBytes / rowBytes));
  for (let y = 0; y < height; y += rowsAtOnce) {
    const rows = Math.min(rowsAtOnce, height - y);
    const block = new Uint8Array(rows * rowBytes);
    for (let row = 0; row < rows; row += 1) {
      fill(block.subarray(row * rowBytes + 1, (row + 1) * rowBytes), y + row);
    }
    yield block;
  }
}
