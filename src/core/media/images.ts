import { crc32 } from 'node:zlib';
import { base64Length } from '../text.ts';

/** Magic numbers of the image and document types that models accept. */
const signatures: readonly (readonly [string, RegExp])[] = [
  ['image/png', /^\x89PNG\r\n/],
  ['image/jpeg', /^\xff\xd8\xff/],
  ['image/gif', /^GIF8/],
  ['image/webp', /^RIFF.{4}WEBP/s],
  ['application/pdf', /^%PDF-/],
];

/** The length of the longest magic number. */
const signatureBytes = 12;

export function fileTypeOf(bytes: Uint8Array): string | undefined {
  const length = Math.min(bytes.byteLength, signatureBytes);
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, length).toString('latin1');
  return signatures.find(([, signature]) => signature.test(head))?.[0];
}

export interface ImageSize {
  readonly kind: 'PNG' | 'JPEG' | 'WebP';
  readonly width: number;
  readonly height: number;
}

/** JPEG metadata (Exif with a preview, color profiles) can push the size this far back. */
export const imageHeaderBytesUsual = 256 * 1024;
/** Content credentials with thumbnails, and depth maps, push it further. */
export const imageHeaderBytesMax = 4 * 1024 * 1024;

/** Reads the dimensions from a file's first bytes, without decoding it. */
export function readImageSize(bytes: Uint8Array): ImageSize | undefined {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const size = pngSize(head) ?? jpegSize(head) ?? webpSize(head);
  return size !== undefined && size.width > 0 && size.height > 0 ? size : undefined;
}

/** Returns the size of an image in a `data:` URL. Doesn't fetch other URLs. */
export function readDataUrlImageSize(url: string): ImageSize | undefined {
  const match = /^data:[^,]{0,200};base64,/i.exec(url.slice(0, 256));
  if (match === null) return undefined;
  const start = match[0].length;
  const base64 = url.slice(start, start + base64Length(imageHeaderBytesUsual));
  return readImageSize(Buffer.from(base64, 'base64'));
}

function pngSize(head: Buffer): ImageSize | undefined {
  if (head.length < 24 || head.toString('latin1', 0, 8) !== '\x89PNG\r\n\x1a\n') return undefined;
  if (head.toString('latin1', 12, 16) !== 'IHDR') return undefined;
  return { kind: 'PNG', width: head.readUInt32BE(16), height: head.readUInt32BE(20) };
}

function jpegSize(head: Buffer): ImageSize | undefined {
  if (head.length < 4 || head.readUInt16BE(0) !== 0xffd8) return undefined;
  let at = 2;
  while (at + 9 <= head.length && head[at] === 0xff) {
    const marker = head[at + 1] ?? 0;
    // Any number of 0xff fill bytes can precede a marker.
    if (marker === 0xff) {
      at += 1;
      continue;
    }
    if (isFrameStart(marker)) {
      return { kind: 'JPEG', height: head.readUInt16BE(at + 5), width: head.readUInt16BE(at + 7) };
    }
    at += 2 + head.readUInt16BE(at + 2);
  }
  return undefined;
}

/** Matches SOF0 to SOF15, except 3 codes in that range with other meanings. */
function isFrameStart(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
}

function webpSize(head: Buffer): ImageSize | undefined {
  if (head.length < 30 || head.toString('latin1', 0, 4) !== 'RIFF') return undefined;
  switch (head.toString('latin1', 8, 16)) {
    case 'WEBPVP8X':
      return {
        kind: 'WebP',
        width: 1 + head.readUIntLE(24, 3),
        height: 1 + head.readUIntLE(27, 3),
      };
    case 'WEBPVP8L': {
      const bits = head.readUInt32LE(21);
      return { kind: 'WebP', width: 1 + (bits & 0x3fff), height: 1 + ((bits >> 14) & 0x3fff) };
    }
    case 'WEBPVP8 ':
      return {
        kind: 'WebP',
        width: head.readUInt16LE(26) & 0x3fff,
        height: head.readUInt16LE(28) & 0x3fff,
      };
    default:
      return undefined;
  }
}

export const pngSignature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');

/** Builds a PNG with 8 bits per sample, not interlaced. `color` is the PNG color type. */
export function pngFile(
  size: { readonly width: number; readonly height: number },
  color: number,
  chunks: readonly Buffer[],
): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(size.width, 0);
  header.writeUInt32BE(size.height, 4);
  header.set([8, color], 8);
  const [first, last] = [pngChunk('IHDR', header), pngChunk('IEND', new Uint8Array())];
  return Buffer.concat([pngSignature, first, ...chunks, last]);
}

/** Builds a PNG chunk: length, four-letter type, data, and a checksum of type and data. */
export function pngChunk(kind: string, data: Uint8Array): Buffer {
  const bytes = Buffer.alloc(12 + data.length);
  bytes.writeUInt32BE(data.length, 0);
  bytes.write(kind, 4, 'latin1');
  bytes.set(data, 8);
  bytes.writeUInt32BE(crc32(bytes.subarray(4, 8 + data.length)), 8 + data.length);
  return bytes;
}
