/** How a PNG lays its pixels out (https://www.w3.org/TR/png-3/). */

export interface PngHeader {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly colour: ColourKind['colour'];
  readonly bitsPerPixel: number;
  readonly isInterlaced: boolean;
}

interface ColourKind {
  readonly colour: 'grey' | 'rgb' | 'indexed' | 'grey+alpha' | 'rgb+alpha';
  readonly channels: number;
  readonly depths: readonly number[];
}

const kinds: ReadonlyMap<number, ColourKind> = new Map([
  [0, { colour: 'grey', channels: 1, depths: [1, 2, 4, 8, 16] }],
  [2, { colour: 'rgb', channels: 3, depths: [8, 16] }],
  [3, { colour: 'indexed', channels: 1, depths: [1, 2, 4, 8] }],
  [4, { colour: 'grey+alpha', channels: 2, depths: [8, 16] }],
  [6, { colour: 'rgb+alpha', channels: 4, depths: [8, 16] }],
]);

/** Undefined when the thirteen bytes describe nothing that a PNG can be. */
export function readHeader(ihdr: Buffer): PngHeader | undefined {
  const [width, height, depth] = [ihdr.readUInt32BE(0), ihdr.readUInt32BE(4), ihdr.readUInt8(8)];
  const kind = kinds.get(ihdr.readUInt8(9));
  const [compression, filter, interlace] = [ihdr[10], ihdr[11], ihdr[12] ?? 0];
  const isKnown = compression === 0 && filter === 0 && interlace <= 1 && width > 0 && height > 0;
  if (!kind?.depths.includes(depth) || !isKnown) return undefined;
  const { colour, channels } = kind;
  const isInterlaced = interlace === 1;
  return { width, height, depth, colour, bitsPerPixel: channels * depth, isInterlaced };
}

/** One pass over the picture: every `dx`th pixel of every `dy`th row, starting at a corner. */
export interface PngPass {
  readonly x: number;
  readonly y: number;
  readonly dx: number;
  readonly dy: number;
  readonly width: number;
  readonly height: number;
  readonly rowBytes: number;
}

const whole = [[0, 0, 1, 1]] as const;
const adam7 = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;

/** An interlaced picture comes in seven passes; those without pixels are left out. */
export function passesOf(header: PngHeader): readonly PngPass[] {
  const runs = header.isInterlaced ? adam7 : whole;
  return runs
    .map(([x, y, dx, dy]) => {
      const width = Math.ceil((header.width - x) / dx);
      const height = Math.ceil((header.height - y) / dy);
      const rowBytes = Math.ceil((width * header.bitsPerPixel) / 8);
      return { x, y, dx, dy, width, height, rowBytes };
    })
    .filter(({ width, height }) => width > 0 && height > 0);
}
