/** How long an audio file plays: exact for WAV and MP3, guessed from the size for the rest. */

/** 128 kbit/s, what compressed audio usually has. */
const guessedBytesPerSecond = 16_000;

/** How much rubbish may stand before the first MP3 frame. */
const resyncBytesMax = 64 * 1024;

export function audioSeconds(file: Uint8Array): number {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength);
  const seconds = wavSeconds(bytes) ?? mp3Seconds(bytes) ?? bytes.length / guessedBytesPerSecond;
  return Math.round(seconds * 1_000) / 1_000;
}

function wavSeconds(bytes: Buffer): number | undefined {
  const isWav =
    bytes.toString('latin1', 0, 4) === 'RIFF' && bytes.toString('latin1', 8, 12) === 'WAVE';
  if (!isWav) return undefined;
  let bytesPerSecond = 0;
  let at = 12;
  while (at + 8 <= bytes.length) {
    const kind = bytes.toString('latin1', at, at + 4);
    const size = bytes.readUInt32LE(at + 4);
    if (kind === 'fmt ' && at + 20 <= bytes.length) bytesPerSecond = bytes.readUInt32LE(at + 16);
    if (kind === 'data') {
      // Recorders that stream write a size of 0 or 2³²−1; what is really there counts.
      const present = bytes.length - at - 8;
      const dataBytes = size === 0 ? present : Math.min(size, present);
      return bytesPerSecond > 0 ? dataBytes / bytesPerSecond : undefined;
    }
    at += 8 + size + (size % 2);
  }
  return undefined;
}

function mp3Seconds(bytes: Buffer): number | undefined {
  const start = skipId3(bytes);
  for (let at = start; at < Math.min(bytes.length, start + resyncBytesMax); at += 1) {
    const { frames, seconds } = walkFrames(bytes, at);
    // Two frames in a row are proof; one header can be chance.
    if (frames >= 2) return seconds;
  }
  return undefined;
}

/** ID3v2 tags write their size in four bytes of seven bits. */
function skipId3(bytes: Buffer): number {
  if (bytes.length < 10 || bytes.toString('latin1', 0, 3) !== 'ID3') return 0;
  const [a = 0, b = 0, c = 0, d = 0] = bytes.subarray(6, 10);
  return 10 + ((a & 0x7f) << 21) + ((b & 0x7f) << 14) + ((c & 0x7f) << 7) + (d & 0x7f);
}

function walkFrames(bytes: Buffer, start: number): { frames: number; seconds: number } {
  let frames = 0;
  let seconds = 0;
  let at = start;
  for (;;) {
    const frame = readFrameHeader(bytes, at);
    if (frame === undefined) return { frames, seconds };
    frames += 1;
    seconds += frame.seconds;
    at += frame.bytes;
  }
}

const kbitsMpeg1 = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
const kbitsMpeg2 = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
const sampleRatesMpeg1 = [44_100, 48_000, 32_000];

/** Layer III only: what people call MP3. */
function readFrameHeader(
  bytes: Buffer,
  at: number,
): { bytes: number; seconds: number } | undefined {
  if (at + 4 > bytes.length) return undefined;
  const header = bytes.readUInt32BE(at);
  const version = (header >>> 19) & 3;
  const isLayer3 = header >>> 21 === 0x7ff && ((header >>> 17) & 3) === 1 && version !== 1;
  const isMpeg1 = version === 3;
  const kbits = (isMpeg1 ? kbitsMpeg1 : kbitsMpeg2)[(header >>> 12) & 15] ?? 0;
  const fullRate = sampleRatesMpeg1[(header >>> 10) & 3];
  if (!isLayer3 || kbits === 0 || fullRate === undefined) return undefined;
  // MPEG-2 halves the sample rates of MPEG-1, MPEG-2.5 halves them again.
  const sampleRate = isMpeg1 ? fullRate : version === 2 ? fullRate / 2 : fullRate / 4;
  const samples = isMpeg1 ? 1_152 : 576;
  const padding = (header >>> 9) & 1;
  return {
    bytes: Math.floor((samples / 8) * ((kbits * 1_000) / sampleRate)) + padding,
    seconds: samples / sampleRate,
  };
}
