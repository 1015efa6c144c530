import { transcriptionBytesMax } from '../../core/bounds.ts';
import { invalidRequest } from '../../core/errors.ts';
import {
  bytesToNextFrame,
  id3Bytes,
  isTableFrame,
  junkBytesMax,
  type Mp3Frame,
  mp3FrameAt,
  readWavHeader,
  type WavHeader,
  writeWavHeader,
} from '../../core/media/audio-files.ts';
import { readObject, type StoredObject } from '../object-storage.ts';

/** A byte range of an audio file that is sent as a separate file. */
interface AudioCut {
  readonly from: number;
  readonly to: number;
  /** Where the range starts in the audio file. It is added to the transcript's timestamps. */
  readonly startMs: number;
}

/** Leaves 1 MiB of the limit for the other fields of a request. */
const cutBytes = transcriptionBytesMax - 1024 * 1024;
/** Some providers accept at most an hour of audio per call. */
const cutSeconds = 50 * 60;

/** The byte rate of any real WAV file is higher. A lower one would cause thousands of calls. */
const bytesPerSecondMin = 1_000;

/** How much is read at once while looking for cuts. */
const windowBytes = 1024 * 1024;
/** Covers metadata chunks before the samples of a WAV file, such as tags and cover images. */
const wavHeaderBytes = 4 * 1024 * 1024;

/** Returns the cuts of a file, which are the same on every call. Small files stay in one piece. */
export async function planCuts(file: StoredObject): Promise<readonly AudioCut[]> {
  if (file.bytes <= transcriptionBytesMax) return [{ from: 0, to: file.bytes, startMs: 0 }];
  const start = await readObject(file, 0, wavHeaderBytes);
  const header = readWavHeader(start);
  const cuts = header ? cutWav(header, file.bytes) : await cutMp3(file, id3Bytes(start));
  if (cuts.length > 0) return cuts;
  const mebibytesMax = transcriptionBytesMax / 1024 / 1024;
  throw invalidRequest(
    `Files over ${mebibytesMax} MiB must be wav or mp3, because other formats can't be split.`,
    'file',
  );
}

/** Returns one cut as a complete file. */
export async function readCut(file: StoredObject, { from, to }: AudioCut): Promise<Uint8Array> {
  const part = await readObject(file, from, to);
  if (from === 0 && to === file.bytes) return part;
  const header = readWavHeader(await readObject(file, 0, wavHeaderBytes));
  if (!header) return part;
  return Buffer.concat([writeWavHeader(header.format, part.length), part]);
}

function cutWav(header: WavHeader, fileBytes: number): AudioCut[] {
  const { blockBytes, bytesPerSecond, dataStart } = header;
  const end = Math.min(fileBytes, dataStart + header.dataBytes);
  const bytesMax = Math.min(cutBytes, cutSeconds * Math.max(bytesPerSecond, bytesPerSecondMin));
  const step = Math.max(blockBytes, bytesMax - (bytesMax % blockBytes));
  const cuts: AudioCut[] = [];
  for (let from = dataStart; from < end; from += step) {
    const startMs = Math.round(((from - dataStart) / bytesPerSecond) * 1000);
    cuts.push({ from, to: Math.min(end, from + step), startMs });
  }
  return cuts;
}

async function cutMp3(file: StoredObject, firstByte: number): Promise<AudioCut[]> {
  const cutter = new Mp3Cutter(firstByte);
  while (cutter.at + 4 <= file.bytes && cutter.junkBytes <= junkBytesMax) {
    cutter.readFrames(await readObject(file, cutter.at, cutter.at + windowBytes));
  }
  // Random bytes can look like frame headers, but not throughout most of a file.
  return cutter.audioBytes < file.bytes / 2 ? [] : cutter.end(file.bytes);
}

/** Scans the frames of a file and skips junk between them, as players do. */
class Mp3Cutter {
  readonly #cuts: AudioCut[] = [];
  #from: number;
  #startSeconds = 0;
  #seconds = 0;
  at: number;
  audioBytes = 0;
  junkBytes = 0;

  constructor(firstByte: number) {
    this.#from = firstByte;
    this.at = firstByte;
  }

  /** Reads the frames in `window`, the bytes that start at `at`. */
  readFrames(window: Uint8Array): void {
    for (let offset = 0; offset + 4 <= window.length; ) {
      const frame = mp3FrameAt(window, offset);
      const step = frame?.bytes ?? bytesToNextFrame(window, offset);
      const isFirst = this.audioBytes === 0;
      const isTable = frame && isFirst && isTableFrame(window.subarray(offset, offset + step));
      // Skip the seek table. It contains the full duration, which providers would charge for.
      if (isTable) this.#from = this.at + step;
      else if (frame) this.#addFrame(frame);
      else this.junkBytes += step;
      offset += step;
      this.at += step;
    }
  }

  #addFrame({ bytes, samples, sampleRate }: Mp3Frame): void {
    const isLarge = this.at + bytes - this.#from > cutBytes;
    // Round, because the sum of many frame durations has a floating-point error.
    const isLong = Math.round((this.#seconds - this.#startSeconds) * 1000) >= cutSeconds * 1000;
    if (isLarge || isLong) {
      this.#cuts.push(this.#cut(this.at));
      this.#from = this.at;
      this.#startSeconds = this.#seconds;
    }
    this.audioBytes += bytes;
    this.#seconds += samples / sampleRate;
  }

  end(fileBytes: number): AudioCut[] {
    // Drop the bytes after the last frame, which aren't audio and may exceed the limit.
    const to = Math.min(this.at, fileBytes, this.#from + cutBytes);
    return [...this.#cuts, this.#cut(to)];
  }

  #cut(to: number): AudioCut {
    return { from: this.#from, to, startMs: Math.round(this.#startSeconds * 1000) };
  }
}
