/** WAV files: what is in front of the samples. */

export interface WavHead {
  /** The `fmt ` chunk, which says how samples are written. */
  readonly format: Uint8Array;
  /** Samples of all channels at one moment: the smallest unit that can be cut. */
  readonly blockBytes: number;
  readonly bytesPerSecond: number;
  readonly dataStart: number;
  /** As declared; recorders that stream declare 0 or 2³²−1 and mean to the end of the file. */
  readonly dataBytes: number;
}

/** Reads the chunks in front of the samples; undefined for what is no WAV file. */
export function readWavHead(start: Uint8Array): WavHead | undefined {
  const bytes = Buffer.from(start.buffer, start.byteOffset, start.byteLength);
  const isWav =
    bytes.toString('latin1', 0, 4) === 'RIFF' && bytes.toString('latin1', 8, 12) === 'WAVE';
  let format: Buffer | undefined;
  for (let at = 12; isWav && at + 8 <= bytes.length; ) {
    const kind = bytes.toString('latin1', at, at + 4);
    const size = bytes.readUInt32LE(at + 4);
    if (kind === 'fmt ') format = bytes.subarray(at + 8, at + 8 + size);
    if (kind === 'data') return format && headOf(format, at + 8, size);
    at += 8 + size + (size % 2);
  }
  return undefined;
}

function headOf(format: Buffer, dataStart: number, declared: number): WavHead | undefined {
  if (format.length < 16) return undefined;
  const [bytesPerSecond, blockBytes] = [format.readUInt32LE(8), format.readUInt16LE(12)];
  if (bytesPerSecond === 0 || blockBytes === 0) return undefined;
  const isOpen = declared === 0 || declared === 0xffff_ffff;
  const dataBytes = isOpen ? Number.POSITIVE_INFINITY : declared;
  return { format, blockBytes, bytesPerSecond, dataStart, dataBytes };
}

/** Everything that stands in front of this many bytes of samples. */
export function writeWavHead(format: Uint8Array, dataBytes: number): Uint8Array<ArrayBuffer> {
  const head = Buffer.alloc(20 + format.length + 8);
  head.write('RIFF', 0, 'latin1');
  // Odd data is followed by a byte of padding, which the file's size counts.
  head.writeUInt32LE(head.length - 8 + dataBytes + (dataBytes % 2), 4);
  head.write('WAVEfmt ', 8, 'latin1');
  head.writeUInt32LE(format.length, 16);
  head.set(format, 20);
  head.write('data', 20 + format.length, 'latin1');
  head.writeUInt32LE(dataBytes, 24 + format.length);
  return head;
}

/** Sizes in a WAV file have four bytes. */
export const wavDataBytesMax = 0xffff_ffff - 1024;
