import { describe, expect, test } from 'bun:test';
import { crc32, deflateSync } from 'node:zlib';
import { encode } from 'fast-png';
import { bodyFromBytes } from '../../dialects/streamed-body.ts';
import { type AlphaProblem, type Coverage, readCoverage, writePng } from './png.ts';

const pixelsMax = 1_000_000;
const read = (png: Uint8Array) => readCoverage(bodyFromBytes(png), pixelsMax);

function drawn(coverage: Coverage | AlphaProblem): string {
  if (typeof coverage === 'string') return coverage;
  const letters = [...coverage.isOpaque].map((opaque) => (opaque ? '#' : '.')).join('');
  return letters.match(new RegExp(`.{${coverage.width}}`, 'g'))?.join(' ') ?? '';
}

function chunk(type: string, data: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const full = Buffer.alloc(body.length + 8);
  full.writeUInt32BE(data.length, 0);
  body.copy(full, 4);
  full.writeUInt32BE(crc32(body), body.length + 4);
  return full;
}

interface Handmade {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly color: number;
  readonly before?: readonly Buffer[];
  /** With the filter byte before each row. */
  readonly raw: Uint8Array;
  /** The compressed pixels are split into chunks of this many bytes. */
  readonly chunkBytes?: number;
}

function handmade({ width, height, depth, color, before = [], raw, chunkBytes }: Handmade) {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([depth, color], 8);
  const packed = deflateSync(raw);
  const size = chunkBytes ?? packed.length;
  const pixels = Array.from({ length: Math.ceil(packed.length / size) }, (_, index) =>
    chunk('IDAT', packed.subarray(index * size, (index + 1) * size)),
  );
  const signature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');
  const end = chunk('IEND', Buffer.alloc(0));
  return Buffer.concat([signature, chunk('IHDR', header), ...before, ...pixels, end]);
}

describe('readCoverage', () => {
  const alphas = [255, 0, 128, 127, 200, 3, 254, 1, 129];
  const opaque = '#.# .#. #.#';

  test('reads rows with every filter', async () => {
    const pixels = alphas.map((alpha, index) => [
      index * 29,
      255 - index * 13,
      (index * index * 7) % 256,
      alpha,
    ]);
    const rows = [0, 1, 2].map((y) => pixels.slice(y * 3, y * 3 + 3).flat());
    for (const filter of [0, 1, 2, 3, 4]) {
      const raw = rows.flatMap((row, y) => [filter, ...filtered(filter, row, rows[y - 1] ?? [])]);
      const png = handmade({ width: 3, height: 3, depth: 8, color: 6, raw: Uint8Array.from(raw) });
      expect([filter, drawn(await read(png))]).toEqual([filter, opaque]);
    }
  });

  /** As in the standard: each byte minus the prediction from its neighbors. */
  function filtered(filter: number, row: readonly number[], above: readonly number[]): number[] {
    return row.map((value, index) => {
      const [a, b, c] = [row[index - 4] ?? 0, above[index] ?? 0, above[index - 4] ?? 0];
      const [pa, pb, pc] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)];
      const paeth = pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
      const predicted = [0, a, b, Math.floor((a + b) / 2), paeth][filter] ?? 0;
      return (value - predicted + 512) % 256;
    });
  }

  test('reads pixels in many chunks, byte by byte, with other chunks in between', async () => {
    const raw = Uint8Array.from([0, 1, 2, 3, 255, 4, 5, 6, 0]);
    const before = [chunk('tEXt', Buffer.from('a\0b')), chunk('iCCP', Buffer.alloc(70_000, 1))];
    const shape = { width: 2, height: 1, depth: 8, color: 6 };
    const png = handmade({ ...shape, raw, before, chunkBytes: 3 });
    const trickle = {
      bytes: png.length,
      async *chunks() {
        for (const byte of png) yield Uint8Array.of(byte);
      },
    };
    expect(drawn(await readCoverage(trickle, pixelsMax))).toBe('#.');
  });

  test('reads 16-bit and gray images', async () => {
    const deep = Uint16Array.from(alphas.flatMap((alpha) => [1, 2, 3, alpha * 257]));
    const png = encode({ width: 3, height: 3, channels: 4, depth: 16, data: deep });
    expect(drawn(await read(png))).toBe(opaque);
    const gray = Uint8Array.from(alphas.flatMap((alpha) => [99, alpha]));
    const grayPng = encode({ width: 3, height: 3, channels: 2, depth: 8, data: gray });
    expect(drawn(await read(grayPng))).toBe(opaque);
  });

  test('reads interlaced images of every small size', async () => {
    for (let width = 1; width <= 9; width += 1) {
      for (let height = 1; height <= 9; height += 1) {
        const isOpaque = Array.from(
          { length: width * height },
          (_, index) => (index * 7 + width) % 3 > 0,
        );
        const data = Uint8Array.from(isOpaque.flatMap((yes) => [9, 9, 9, yes ? 255 : 0]));
        const image = { width, height, channels: 4, depth: 8, data } as const;
        const coverage = await read(encode(image, { interlace: 'Adam7' }));
        const found = typeof coverage === 'string' ? coverage : [...coverage.isOpaque];
        expect(found).toEqual(isOpaque.map(Number));
      }
    }
  });

  test.each([1, 2, 4, 8])('looks up the alpha of a palette with %i bits', async (depth) => {
    const before = [
      chunk('PLTE', Buffer.from([1, 2, 3, 4, 5, 6])),
      chunk('tRNS', Buffer.from([0])),
    ];
    // Color 0 is transparent. Color 1 has no entry, so it is opaque: 0 1 1 0 1.
    const bits = [0, 1, 1, 0, 1].map((index) => index.toString(2).padStart(depth, '0')).join('');
    const bytes = bits.match(/.{1,8}/g)?.map((byte) => Number.parseInt(byte.padEnd(8, '0'), 2));
    const raw = Uint8Array.from([0, ...(bytes ?? [])]);
    const png = handmade({ width: 5, height: 1, depth, color: 3, before, raw });
    expect(drawn(await read(png))).toBe('.##.#');
  });

  test('reads a transparent color of gray and RGB images', async () => {
    const gray = { width: 3, height: 1, depth: 8, color: 0, raw: Uint8Array.of(0, 7, 8, 7) };
    const grayKey = [chunk('tRNS', Buffer.from([0, 7]))];
    expect(drawn(await read(handmade({ ...gray, before: grayKey })))).toBe('.#.');
    const raw = Uint8Array.of(0, 1, 2, 3, 1, 2, 4);
    const colors = { width: 2, height: 1, depth: 8, color: 2, raw };
    const key = [chunk('tRNS', Buffer.from([0, 1, 0, 2, 0, 3]))];
    expect(drawn(await read(handmade({ ...colors, before: key })))).toBe('.#');
    expect(await read(handmade(colors))).toBe('no-alpha');
  });
});

describe('readCoverage of an invalid file', () => {
  const shape = { width: 4, height: 4, depth: 8, color: 6 };

  test('returns the kind of problem', async () => {
    expect(await read(new Uint8Array())).toBe('not-png');
    expect(await read(Buffer.from('GIF89a, and more bytes'))).toBe('not-png');
    const full = handmade({ ...shape, raw: new Uint8Array(4 * 17) });
    expect(drawn(await read(full))).toBe('.... .... .... ....');
    expect(await read(full.subarray(0, 20))).toBe('broken');
    expect(await read(full.subarray(0, full.length - 22))).toBe('broken');
    expect(await read(handmade({ ...shape, raw: new Uint8Array(4 * 17 - 1) }))).toBe('broken');
    expect(await read(handmade({ ...shape, raw: Uint8Array.of(9) }))).toBe('broken');
    expect(await read(handmade({ ...shape, depth: 3, raw: new Uint8Array() }))).toBe('broken');
    expect(await read(handmade({ ...shape, color: 5, raw: new Uint8Array() }))).toBe('broken');
    expect(await read(handmade({ ...shape, width: 0, raw: new Uint8Array() }))).toBe('broken');
    const noise = Buffer.concat([full.subarray(0, 45), Buffer.alloc(30, 0x5a)]);
    expect(await read(noise)).toBe('broken');
  });

  test('does not inflate too many pixels, or more than the header states', async () => {
    const wide = { ...shape, width: 2_000, height: 501 };
    expect(await read(handmade({ ...wide, raw: new Uint8Array() }))).toBe('too-large');
    const before = process.memoryUsage.rss();
    const bomb = handmade({ ...shape, raw: Buffer.alloc(256 * 1024 * 1024) });
    const packed = process.memoryUsage.rss();
    expect(await read(bomb)).toBe('broken');
    expect(process.memoryUsage.rss() - Math.max(before, packed)).toBeLessThan(64 * 1024 * 1024);
  });
});

test('writePng writes images that other decoders read', async () => {
  const image = { width: 300, height: 400, color: 'rgb+alpha' as const };
  const png = await writePng({
    ...image,
    fill(row, y) {
      for (let x = 0; x < 300; x += 1) row[x * 4 + 3] = (x + y) % 256;
    },
  });
  const { decode } = await import('fast-png');
  const { width, height, channels, depth, data } = decode(png, { checkCrc: true });
  expect([width, height, channels, depth]).toEqual([300, 400, 4, 8]);
  const wrong = Array.from(data).findIndex((value, index) => {
    const [x, y] = [Math.floor(index / 4) % 300, Math.floor(index / 1200)];
    return value !== (index % 4 === 3 ? (x + y) % 256 : 0);
  });
  expect(wrong).toBe(-1);
});
