/** Writes PNG files of up to 256 colours: W3C "Portable Network Graphics", sections 5 and 11. */
import { deflateSync } from 'node:zlib';
import { pngChunk, pngFile } from '../core/media/png-chunk.ts';

interface Picture {
  readonly width: number;
  readonly height: number;
  /** Red, green, blue of each colour. */
  readonly palette: Uint8Array;
  /** From `compressPixels`; pictures that differ only in colour share it. */
  readonly pixels: Uint8Array;
}

/** Each pixel is the number of a colour. Rows come one after the other. */
export function compressPixels(
  width: number,
  height: number,
  colourAt: (x: number, y: number) => number,
): Uint8Array {
  const rowBytes = width + 1;
  const rows = new Uint8Array(rowBytes * height);
  for (let y = 0; y < height; y += 1) {
    // The first byte of a row names its filter; 0, the value already there, is none.
    for (let x = 0; x < width; x += 1) rows[y * rowBytes + 1 + x] = colourAt(x, y);
  }
  return deflateSync(rows, { level: 1 });
}

export function encodePng(picture: Picture): Buffer {
  const { palette, pixels } = picture;
  return pngFile(picture, 3, [pngChunk('PLTE', palette), pngChunk('IDAT', pixels)]);
}
