import { crc32 } from 'node:zlib';

/** How every PNG file begins. */
export const pngSignature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');

/** What the rest of it is made of: a length, a kind of four letters, the data, a sum of the two. */
export function pngChunk(kind: string, data: Uint8Array): Buffer {
  const bytes = Buffer.alloc(12 + data.length);
  bytes.writeUInt32BE(data.length, 0);
  bytes.write(kind, 4, 'latin1');
  bytes.set(data, 8);
  bytes.writeUInt32BE(crc32(bytes.subarray(4, 8 + data.length)), 8 + data.length);
  return bytes;
}
