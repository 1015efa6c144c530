export interface Mp3Frame {
  readonly bytes: number;
  readonly samples: number;
  readonly sampleRate: number;
  /** Version, sample rate, and channels. Frames that differ here can't be joined. */
  readonly kind: string;
}

const kbitsMpeg1 = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
const kbitsMpeg2 = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
const sampleRatesMpeg1 = [44_100, 48_000, 32_000];

/** Parses the header of an MP3 frame (MPEG audio, Layer III) that starts at this offset. */
export function mp3FrameAt(bytes: Uint8Array, at: number): Mp3Frame | undefined {
  if (at + 4 > bytes.length || bytes[at] !== 0xff) return undefined;
  const b = bytes[at + 1] ?? 0;
  const c = bytes[at + 2] ?? 0;
  const d = bytes[at + 3] ?? 0;
  const version = (b >> 3) & 3;
  if ((b & 0xe0) !== 0xe0 || ((b >> 1) & 3) !== 1 || version === 1) return undefined;
  const isMpeg1 = version === 3;
  const kbits = (isMpeg1 ? kbitsMpeg1 : kbitsMpeg2)[c >> 4] ?? 0;
  const fullRate = sampleRatesMpeg1[(c >> 2) & 3];
  if (kbits === 0 || fullRate === undefined) return undefined;
  // MPEG-2 halves the sample rates of MPEG-1; MPEG-2.5 halves them again.
  const sampleRate = isMpeg1 ? fullRate : version === 2 ? fullRate / 2 : fullRate / 4;
  const samples = isMpeg1 ? 1_152 : 576;
  return {
    bytes: Math.floor((samples / 8) * ((kbits * 1_000) / sampleRate)) + ((c >> 1) & 1),
    samples,
    sampleRate,
    kind: `${version}/${sampleRate}/${d >> 6 === 3 ? 'mono' : 'stereo'}`,
  };
}

/** Returns the size of an ID3v2 tag at this offset, or 0. The size field is 4 bytes of 7 bits. */
export function id3Bytes(bytes: Uint8Array, at = 0): number {
  const isTag = bytes[at] === 0x49 && bytes[at + 1] === 0x44 && bytes[at + 2] === 0x33;
  if (!isTag || at + 10 > bytes.length) return 0;
  const [a = 0, b = 0, c = 0, d = 0] = bytes.subarray(at + 6, at + 10);
  const footer = ((bytes[at + 5] ?? 0) & 0x10) === 0 ? 0 : 10;
  const size = ((a & 0x7f) << 21) | ((b & 0x7f) << 14) | ((c & 0x7f) << 7) | (d & 0x7f);
  return 10 + size + footer;
}

/**
 * Returns whether a frame contains the length and seek table of its file instead of audio. If other
 * frames precede it, or the file is joined to others, that table is wrong.
 */
export function isTableFrame(frame: Uint8Array): boolean {
  const text = Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength);
  return ['Xing', 'Info', 'VBRI'].some((mark) => {
    const at = text.indexOf(mark, 0, 'latin1');
    return at >= 4 && at <= 40;
  });
}

/**
 * Returns the distance to the next possible frame. indexOf is much faster than testing each byte.
 */
export function bytesToNextFrame(bytes: Uint8Array, at: number): number {
  const next = bytes.indexOf(0xff, at + 1);
  return (next === -1 ? bytes.length : next) - at;
}

/** Maximum bytes outside frames, such as tags and corrupt data. A file with more isn't MP3. */
export const junkBytesMax = 4 * 1024 * 1024;

/**
 * Returns the audio frames of a file and their kind, or undefined if it has none. Servers that
 * synthesize sentence by sentence send one file after another, each with tags and a table.
 */
export function extractFrames(
  file: Uint8Array,
): { readonly frames: Uint8Array; readonly kind: string } | undefined {
  const runs: Uint8Array[] = [];
  let kind = '';
  let junkBytes = 0;
  for (let index = 0; index < file.length && junkBytes <= junkBytesMax; ) {
    index += id3Bytes(file, index);
    // Skip garbage between tag and audio. Two consecutive frames prove that the garbage has ended.
    const run = isFrameStart(file, index) ? runAt(file, index) : undefined;
    const step = run && run.end > index ? run.end - index : bytesToNextFrame(file, index);
    if (run && run.end > run.start) {
      kind ||= run.kind;
      runs.push(file.subarray(run.start, run.end));
    } else {
      junkBytes += step;
    }
    index += step;
  }
  const [only] = runs;
  return only && { frames: runs.length === 1 ? only : Buffer.concat(runs), kind };
}

/** Returns the consecutive frames from this offset, without a leading table frame. */
function runAt(file: Uint8Array, at: number) {
  let start = at;
  let end = at;
  let kind = '';
  for (let frame = mp3FrameAt(file, end); frame; frame = mp3FrameAt(file, end)) {
    if (end + frame.bytes > file.length) break;
    const isTable = end === start && isTableFrame(file.subarray(end, end + frame.bytes));
    end += frame.bytes;
    if (isTable) start = end;
    else kind ||= frame.kind;
  }
  return { start, end, kind };
}

function isFrameStart(file: Uint8Array, at: number): boolean {
  const first = mp3FrameAt(file, at);
  if (first === undefined) return false;
  return at + first.bytes >= file.length || mp3FrameAt(file, at + first.bytes) !== undefined;
}

/** The part of a WAV file before the samples. */
export interface WavHeader {
  /** The `fmt ` chunk, which describes the sample format. */
  readonly format: Uint8Array;
  /** Bytes per sample across all channels, the smallest unit to cut at. */
  readonly blockBytes: number;
  readonly bytesPerSecond: number;
  readonly dataStart: number;
  /**
   * The declared size. Streaming recorders declare 0 or 2³²−1, which means up to the end of the
   * file.
   */
  readonly dataBytes: number;
}

/** Reads the chunks before the samples. Returns undefined if the file isn't WAV. */
export function readWavHeader(start: Uint8Array): WavHeader | undefined {
  const bytes = Buffer.from(start.buffer, start.byteOffset, start.byteLength);
  const isWav =
    bytes.toString('latin1', 0, 4) === 'RIFF' && bytes.toString('latin1', 8, 12) === 'WAVE';
  let format: Buffer | undefined;
  for (let index = 12; isWav && index + 8 <= bytes.length; ) {
    const kind = bytes.toString('latin1', index, index + 4);
    const size = bytes.readUInt32LE(index + 4);
    if (kind === 'fmt ') format = bytes.subarray(index + 8, index + 8 + size);
    if (kind === 'data') return format && headerOf(format, index + 8, size);
    index += 8 + size + (size % 2);
  }
  return undefined;
}

function headerOf(format: Buffer, dataStart: number, declared: number): WavHeader | undefined {
  if (format.length < 16) return undefined;
  const [bytesPerSecond, blockBytes] = [format.readUInt32LE(8), format.readUInt16LE(12)];
  if (bytesPerSecond === 0 || blockBytes === 0) return undefined;
  const isOpen = declared === 0 || declared === 0xffff_ffff;
  const dataBytes = isOpen ? Number.POSITIVE_INFINITY : declared;
  return { format, blockBytes, bytesPerSecond, dataStart, dataBytes };
}

/** Writes the header for this many bytes of samples. */
export function writeWavHeader(format: Uint8Array, dataBytes: number): Uint8Array<ArrayBuffer> {
  const header = Buffer.alloc(20 + format.length + 8);
  header.write('RIFF', 0, 'latin1');
  // Odd data is followed by a padding byte, which the file's size includes.
  header.writeUInt32LE(header.length - 8 + dataBytes + (dataBytes % 2), 4);
  header.write('WAVEfmt ', 8, 'latin1');
  header.writeUInt32LE(format.length, 16);
  header.set(format, 20);
  header.write('data', 20 + format.length, 'latin1');
  header.writeUInt32LE(dataBytes, 24 + format.length);
  return header;
}

/** Sizes in a WAV file are 4-byte numbers, and the file's size includes the header. */
export const wavDataBytesMax = 0xffff_ffff - 1024;
