/** Creates images that clients send and reads those that providers received. */
import { decode, encode } from 'fast-png';

/** The alpha of each letter: opaque, transparent, just above half, and just below half. */
const alphas: Readonly<Record<string, number>> = { '#': 255, '.': 0, '+': 128, '-': 127 };

type MaskKind = 'rgba' | 'rgba16' | 'gray+alpha' | 'interlaced';

/** Returns a mask drawn with letters, one string per row. */
export function mask(rows: readonly string[], kind: MaskKind = 'rgba'): Uint8Array {
  const [width, height] = [rows[0]?.length ?? 0, rows.length];
  const channels = kind === 'gray+alpha' ? 2 : 4;
  const depth = kind === 'rgba16' ? 16 : 8;
  const scale = depth === 16 ? 257 : 1;
  const samples = rows.flatMap((row) =>
    [...row].flatMap((letter, x) => {
      // The gateway must ignore a mask's colors. They vary to detect code that reads them as alpha.
      const color = Array.from(
        { length: channels - 1 },
        (_, index) => ((x * 37 + index) % 256) * scale,
      );
      return [...color, (alphas[letter] ?? 0) * scale];
    }),
  );
  const data = depth === 16 ? Uint16Array.from(samples) : Uint8Array.from(samples);
  const interlace = kind === 'interlaced' ? 'Adam7' : 'null';
  return encode({ width, height, channels, depth, data }, { interlace });
}

/** Returns a PNG without transparency. */
export function opaquePng(width: number, height: number): Uint8Array {
  const data = Uint8Array.from({ length: width * height * 3 }, (_, index) => (index * 7) % 256);
  return encode({ width, height, channels: 3, depth: 8, data });
}

/** Returns the samples of a channel, row by row. */
export function channelOf(png: Uint8Array, channel: number): number[][] {
  const { width, height, channels, data } = decode(png);
  return Array.from({ length: height }, (_, y) =>
    Array.from({ length: width }, (_, x) => data[(y * width + x) * channels + channel] ?? -1),
  );
}

export function formatOf(png: Uint8Array): string {
  const { width, height, channels, depth } = decode(png);
  return `${width}x${height}, ${channels} channels of ${depth} bits`;
}
