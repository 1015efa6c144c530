import { crc32 } from 'node:zlib';

/** How every PNG file begins. */
export const pngSignature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');

/** A whole file of 8 bits a sample, not interlaced; `colour` is the number of a kind of pixels. */
export function pngFile(
  size: { readonly width: number; readonly height: number },
  colour: number,
  chunks: readonly Buffer[],
): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(size.width, 0);
  header.writeUInt32BE(size.height, 4);
  header.set([8, colour], 8);
  const [first, last] = [pngChunk('IHDR', header), pngChunk('IEND', new Uint8Array())];
  return Buffer.concat([pngSignature, first, ...chunks, last]);
}

/** One chunk of a PNG: a length, a kind of four letters, the data, a checksum of these two. */
export function pngChunk(kind: string, data: Uint8Array): Buffer {
  const bytes = Buffer.alloc(12 + data.length);
  bytes.writeUInt32BE(data.length, 0);
  bytes.write(kind, 4, 'latin1');
  bytes.set(data, 8);
  bytes.writeUInt32BE(crc32(bytes.subarray(4, 8 + data.length)), 8 + data.length);
  return bytes;
}
