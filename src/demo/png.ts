/** Writes PNG files of up to 256 colours: W3C "Portable Network Graphics", sections 5 and 11. */
import { deflateSync } from 'node:zlib';
import { pngChunk, pngFile } from '../core/media/png-chunk.ts';

interface Picture {
  readonly width: number;
  readonly height: number;
  /** Three bytes for each colour: red, green, blue. */
  readonly palette: Uint8Array;
  /** The result of `compressPixels`; pictures that differ only in their colours can share it. */
  readonly pixels: Uint8Array;
}

/** Each pixel is the index of a colour in the palette; rows follow each other. */
export function compressPixels(
  width: number,
  height: number,
  colourAt: (x: number, y: number) => number,
): Uint8Array {
  const rowBytes = width + 1;
  const rows = new Uint8Array(rowBytes * height);
  for (let y = 0; y < height; y += 1) {
    // The first byte of a row names its filter; it stays 0, which means no filter.
    for (let x = 0; x < width; x += 1) rows[y * rowBytes + 1 + x] = colourAt(x, y);
  }
  return deflateSync(rows, { level: 1 });
}

export function encodePng(picture: Picture): Buffer {
  const { palette, pixels } = picture;
  return pngFile(picture, 3, [pngChunk('PLTE', palette), pngChunk('IDAT', pixels)]);
}
