import { transcriptionBytesMax } from '../../core/bounds.ts';
import { invalidRequest } from '../../core/errors.ts';
import {
  bytesToNextFrame,
  id3Bytes,
  isTableFrame,
  junkBytesMax,
  type Mp3Frame,
  mp3FrameAt,
  readWavHead,
  type WavHead,
  writeWavHead,
} from '../../core/media/audio-files.ts';
import { readObject, type StoredObject } from '../objects.ts';

/** One part of a recording that goes out as a file of its own. */
interface AudioCut {
  readonly from: number;
  readonly to: number;
  /** Where it starts in the recording; its times are moved by so much. */
  readonly startMs: number;
}

/** Room for what stands around the audio in a request. */
const cutBytes = transcriptionBytesMax - 1024 * 1024;
/** Some providers take at most an hour at once, whatever its size. */
const cutSeconds = 50 * 60;

/** No real WAV file has fewer. One that claims so would be cut into thousands of calls. */
const bytesPerSecondLeast = 1_000;

/** Read at once while looking for cuts. */
const windowBytes = 1024 * 1024;
/** Chunks in front of a WAV file's samples: text that programs leave, seldom a picture. */
const wavHeadBytes = 4 * 1024 * 1024;

/** Where to cut; files that one call takes stay whole. Always the same for the same file. */
export async function planCuts(file: StoredObject): Promise<readonly AudioCut[]> {
  if (file.bytes <= transcriptionBytesMax) return [{ from: 0, to: file.bytes, startMs: 0 }];
  const start = await readObject(file, 0, wavHeadBytes);
  const head = readWavHead(start);
  const cuts = head ? cutWav(head, file.bytes) : await cutMp3(file, id3Bytes(start));
  if (cuts.length > 0) return cuts;
  const most = transcriptionBytesMax / 1024 / 1024;
  throw invalidRequest(
    `Only wav and mp3 files can be cut for transcription, and this one is neither; send other ` +
      `formats in files of at most ${most} MB.`,
    'file',
  );
}

/** The bytes of one part as a file that stands for itself. */
export async function readCut(file: StoredObject, { from, to }: AudioCut): Promise<Uint8Array> {
  const part = await readObject(file, from, to);
  if (from === 0 && to === file.bytes) return part;
  const head = readWavHead(await readObject(file, 0, wavHeadBytes));
  if (!head) return part;
  return Buffer.concat([writeWavHead(head.format, part.length), part]);
}

function cutWav(head: WavHead, fileBytes: number): AudioCut[] {
  const { blockBytes, bytesPerSecond, dataStart } = head;
  const end = Math.min(fileBytes, dataStart + head.dataBytes);
  const most = Math.min(cutBytes, cutSeconds * Math.max(bytesPerSecond, bytesPerSecondLeast));
  const step = Math.max(blockBytes, most - (most % blockBytes));
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
  // Chance makes frame headers in any bytes, but never most of a file.
  return cutter.audioBytes < file.bytes / 2 ? [] : cutter.end(file.bytes);
}

/** Walks over the frames of a file; what lies between two is passed over, as players do. */
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

  /** The bytes from `at` on. */
  readFrames(window: Uint8Array): void {
    for (let offset = 0; offset + 4 <= window.length; ) {
      const frame = mp3FrameAt(window, offset);
      const step = frame?.bytes ?? bytesToNextFrame(window, offset);
      const isFirst = this.audioBytes === 0;
      const isTable = frame && isFirst && isTableFrame(window.subarray(offset, offset + step));
      // Left in the first part, it would claim the whole length, by which providers charge.
      if (isTable) this.#from = this.at + step;
      else if (frame) this.#addFrame(frame);
      else this.junkBytes += step;
      offset += step;
      this.at += step;
    }
  }

  #addFrame({ bytes, samples, sampleRate }: Mp3Frame): void {
    const isLarge = this.at + bytes - this.#from > cutBytes;
    // Rounded: the sum of many frames is slightly off the round number that it should be.
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
    // What follows the last frame is no sound, and may be too much for one call.
    const to = Math.min(this.at, fileBytes, this.#from + cutBytes);
    return [...this.#cuts, this.#cut(to)];
  }

  #cut(to: number): AudioCut {
    return { from: this.#from, to, startMs: Math.round(this.#startSeconds * 1000) };
  }
}
