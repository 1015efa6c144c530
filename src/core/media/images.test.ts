import { expect, test } from 'bun:test';
import { readDataUrlImageSize, readImageSize } from './images.ts';

function bytes(...parts: (string | number[])[]): Buffer {
  return Buffer.concat(
    parts.map((part) =>
      typeof part === 'string' ? Buffer.from(part, 'latin1') : Buffer.from(part),
    ),
  );
}

const png = bytes('\x89PNG\r\n\x1a\n\0\0\0\rIHDR', [0, 0, 2, 128, 0, 0, 1, 224]);

/** Start of image, a JFIF segment, a fill byte, a Huffman table, and the frame. */
const jpeg = bytes(
  [0xff, 0xd8, 0xff, 0xe0, 0, 16],
  'JFIF\0\x01\x01\0\0\x01\0\x01\0\0',
  [0xff, 0xff, 0xc4, 0, 4, 9, 9],
  [0xff, 0xc2, 0, 17, 8, 0x01, 0xe0, 0x02, 0x80, 3],
);

const webpHead = (kind: string) => bytes('RIFF\0\0\0\0WEBP', kind, '\0\0\0\0');

test('readImageSize reads PNG, JPEG, and the 3 kinds of WebP', () => {
  const [lossy, lossless, extended] = [
    bytes(webpHead('VP8 ').toString('latin1'), '\0\0\0\x9d\x01\x2a', [0x80, 0x02, 0xe0, 0x01]),
    // 14 bits each of width - 1 and height - 1: 639 and 479.
    bytes(webpHead('VP8L').toString('latin1'), '\x2f', [0x7f, 0xc2, 0x77, 0x00], [0, 0, 0, 0, 0]),
    bytes(webpHead('VP8X').toString('latin1'), '\0\0\0\0', [0x7f, 0x02, 0, 0xdf, 0x01, 0]),
  ];
  expect(readImageSize(png)).toEqual({ kind: 'PNG', width: 640, height: 480 });
  expect(readImageSize(jpeg)).toEqual({ kind: 'JPEG', width: 640, height: 480 });
  for (const webp of [lossy, lossless, extended]) {
    expect(readImageSize(webp)).toEqual({ kind: 'WebP', width: 640, height: 480 });
  }
});

test('readDataUrlImageSize reads data URLs and ignores other URLs', () => {
  const url = `data:image/png;base64,${png.toString('base64')}`;
  expect(readDataUrlImageSize(url)).toEqual({ kind: 'PNG', width: 640, height: 480 });
  expect(readDataUrlImageSize('https://example.com/a.png')).toBeUndefined();
  expect(readDataUrlImageSize('data:image/png,plain')).toBeUndefined();
});

test('readImageSize returns no wrong size for truncated files', () => {
  for (const image of [png, jpeg]) {
    for (let length = 0; length < image.length - 1; length += 1) {
      const size = readImageSize(image.subarray(0, length));
      expect(size?.width ?? 640).toBe(640);
    }
  }
  expect(readImageSize(bytes([0xff, 0xd8, 0xff, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0]))).toBeUndefined();
});

test('readDataUrlImageSize stops after 256 KB of metadata, but readImageSize does not', () => {
  const segment = bytes([0xff, 0xe1, 0xff, 0xff], '\0'.repeat(0xfffd));
  const bury = (segments: number) =>
    Buffer.concat([jpeg.subarray(0, 2), ...Array(segments).fill(segment), jpeg.subarray(2)]);
  const inlined = (segments: number) =>
    `data:image/jpeg;base64,${bury(segments).toString('base64')}`;
  expect(readDataUrlImageSize(inlined(3))?.width).toBe(640);
  expect(readDataUrlImageSize(inlined(4))).toBeUndefined();
  expect(readImageSize(bury(40))?.width).toBe(640);
});
