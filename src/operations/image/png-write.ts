import { Readable } from 'node:stream';
import { createDeflate } from 'node:zlib';
import { pngChunk, pngFile } from '../../core/media/png-chunk.ts';

/** Rows are packed in blocks of about this size. */
const blockBytes = 256 * 1024;

/** A picture of eight bits a sample, row by row. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly colour: 'grey' | 'rgb+alpha';
  /** Fills in the samples of one row, which are zeros at first. */
  fill(row: Uint8Array, y: number): void;
}

/** A PNG of 8 bits a sample, not interlaced, which every program can read. */
export async function writePng(picture: Picture): Promise<Uint8Array> {
  const packed = Readable.from(blocksOf(picture)).pipe(createDeflate({ chunkSize: 64 * 1024 }));
  const pixels = Buffer.concat(await Array.fromAsync(packed as AsyncIterable<Uint8Array>));
  return pngFile(picture, picture.colour === 'grey' ? 0 : 6, [pngChunk('IDAT', pixels)]);
}

function* blocksOf({ width, height, colour, fill }: Picture): Generator<Uint8Array> {
  // Each row has a byte in front that names its filter: none.
  const rowBytes = 1 + width * (colour === 'grey' ? 1 : 4);
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
