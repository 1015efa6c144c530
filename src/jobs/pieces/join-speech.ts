import { GatewayError } from '../../core/errors.ts';
import type { SpeechFormat } from '../../core/media/audio.ts';
import {
  extractFrames,
  readWavHeader,
  wavDataBytesMax,
  writeWavHeader,
} from '../../core/media/audio-files.ts';
import { type OggPage, type OpusFile, readOpus, writeOggPage } from './ogg-opus.ts';

/** Reads one piece. May be called repeatedly for the same piece, but not concurrently. */
type ReadPiece = (number: number) => Promise<Uint8Array>;

/**
 * Functions that join pieces into one valid file, as a stream, with one piece in memory at a time.
 * JobService rejects the other formats, because their pieces can't be joined without decoding.
 */
const joiners: Partial<Record<SpeechFormat, Joiner>> = {
  mp3: joinMp3,
  wav: joinWav,
  opus: joinOpus,
  aac: joinAac,
  // Raw samples can follow each other directly.
  pcm: concatenate,
};

type Joiner = (count: number, read: ReadPiece) => AsyncGenerator<Uint8Array>;

export function canJoin(format: SpeechFormat): boolean {
  return joiners[format] !== undefined;
}

export function joinSpeech(
  format: SpeechFormat,
  count: number,
  read: ReadPiece,
): AsyncGenerator<Uint8Array> {
  const joiner = count === 1 ? concatenate : joiners[format];
  if (!joiner) throw new Error(`${format} pieces can't be joined.`);
  return joiner(count, read);
}

/** Rejects a piece that couldn't be joined to others. */
export async function checkJoinable(format: SpeechFormat, chunk: Uint8Array): Promise<void> {
  await joiners[format]?.(1, async () => chunk).next();
}

async function* concatenate(count: number, read: ReadPiece): AsyncGenerator<Uint8Array> {
  for (let number = 0; number < count; number += 1) yield await read(number);
}

/** Yields the frames of all pieces. Omits tags and seek tables, because they describe one piece. */
async function* joinMp3(count: number, read: ReadPiece): AsyncGenerator<Uint8Array> {
  const requireSameKind = kindGuard('MP3');
  for (let number = 0; number < count; number += 1) {
    const found = extractFrames(await read(number));
    if (!found) throw wrongFormatError('MP3', number);
    requireSameKind(found.kind, number);
    yield found.frames;
  }
}

/** Reads every piece twice, because the header comes first and contains the total size. */
async function* joinWav(count: number, read: ReadPiece): AsyncGenerator<Uint8Array> {
  const requireSameKind = kindGuard('WAV');
  const samplesOf = async (number: number) => {
    const file = await read(number);
    const header = readWavHeader(file);
    if (!header) throw wrongFormatError('WAV', number);
    requireSameKind(Buffer.from(header.format.subarray(0, 16)).toString('hex'), number);
    const present = Math.min(header.dataBytes, file.length - header.dataStart);
    const completeBytes = present - (present % header.blockBytes);
    return { header, samples: file.subarray(header.dataStart, header.dataStart + completeBytes) };
  };
  let dataBytes = 0;
  let format: Uint8Array = new Uint8Array();
  for (let number = 0; number < count; number += 1) {
    const { header, samples } = await samplesOf(number);
    if (number === 0) format = new Uint8Array(header.format);
    dataBytes += samples.length;
  }
  if (dataBytes > wavDataBytesMax) {
    throw new GatewayError(
      'invalid_request_error',
      'The audio is too long for a WAV file. Use mp3, or a shorter text.',
    );
  }
  yield writeWavHeader(format, dataBytes);
  for (let number = 0; number < count; number += 1) yield (await samplesOf(number)).samples;
  if (dataBytes % 2 === 1) yield new Uint8Array(1);
}

/**
 * Yields the pieces unchanged, because ADTS frames are self-contained. Rejects pieces with tags.
 */
async function* joinAac(count: number, read: ReadPiece): AsyncGenerator<Uint8Array> {
  const requireSameKind = kindGuard('AAC');
  for (let number = 0; number < count; number += 1) {
    const file = await read(number);
    const [a = 0, b = 0, c = 0, d = 0] = file;
    if (a !== 0xff || (b & 0xf6) !== 0xf0) throw wrongFormatError('AAC', number);
    // Profile, sample rate and channels.
    requireSameKind(`${c & 0xfd}/${d & 0xc0}`, number);
    yield file;
  }
}

/**
 * Writes all pages as one stream, with one serial number and continuous sequence numbers and times.
 * All packets of a piece count toward the times, because only the end of a stream can be trimmed.
 */
async function* joinOpus(count: number, read: ReadPiece): AsyncGenerator<Uint8Array> {
  const requireSameKind = kindGuard('Opus');
  const writer = new OggStreamWriter();
  for (let number = 0; number < count; number += 1) {
    const files = readOpus(await read(number));
    if (!files) throw wrongFormatError('Opus', number);
    for (const file of files) {
      requireSameKind(`${file.channels} channels`, number);
      yield* writer.add(file, number === count - 1 && file === files.at(-1));
    }
  }
}

class OggStreamWriter {
  #sequence = 0;
  #samplesBefore = 0n;

  *add({ headers, pages, samples }: OpusFile, isEnd: boolean): Generator<Uint8Array> {
    if (this.#sequence === 0) for (const header of headers) yield this.#write(header, false);
    for (const page of pages) {
      const isLast = page === pages.at(-1);
      const end = isLast && !isEnd ? samples : page.granule;
      const granule = end < 0n ? end : this.#samplesBefore + end;
      yield this.#write({ ...page, granule }, isLast && isEnd);
    }
    this.#samplesBefore += samples;
  }

  #write(page: OggPage, isLast: boolean): Uint8Array {
    const sequence = this.#sequence;
    this.#sequence += 1;
    return writeOggPage(page, { serial: 1, sequence, isFirst: sequence === 0, isLast });
  }
}

/** Returns a check that all pieces have the same format, such as sample rate and channels. */
function kindGuard(name: string): (kind: string, number: number) => void {
  let first: string | undefined;
  return (kind, number) => {
    first ??= kind;
    if (kind === first) return;
    throw joinError(`the first piece and piece ${number + 1} are in different ${name} formats`);
  };
}

function wrongFormatError(name: string, number: number): GatewayError {
  return joinError(`the provider's response for piece ${number + 1} isn't ${name}`);
}

function joinError(reason: string): GatewayError {
  return new GatewayError('upstream_error', `The audio can't be joined: ${reason}.`);
}
