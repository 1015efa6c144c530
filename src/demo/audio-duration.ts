/** How long an audio file plays: exact for WAV and MP3, guessed from the size for the rest. */
import { id3Bytes, mp3FrameAt } from '../core/media/mp3-frames.ts';
import { readWavHead } from '../core/media/wav.ts';

/** 128 kbit/s, what compressed audio usually has. */
const guessedBytesPerSecond = 16_000;

/** How many other bytes may stand before the first MP3 frame. */
const resyncBytesMax = 64 * 1024;

export function audioSeconds(file: Uint8Array): number {
  const seconds = wavSeconds(file) ?? mp3Seconds(file) ?? file.length / guessedBytesPerSecond;
  return Math.round(seconds * 1_000) / 1_000;
}

function wavSeconds(file: Uint8Array): number | undefined {
  const head = readWavHead(file);
  return head && Math.min(head.dataBytes, file.length - head.dataStart) / head.bytesPerSecond;
}

function mp3Seconds(file: Uint8Array): number | undefined {
  const start = id3Bytes(file);
  for (let at = start; at < Math.min(file.length, start + resyncBytesMax); at += 1) {
    const { frames, seconds } = walkFrames(file, at);
    // Two frames in a row are proof; one header can be chance.
    if (frames >= 2) return seconds;
  }
  return undefined;
}

function walkFrames(file: Uint8Array, start: number): { frames: number; seconds: number } {
  let [frames, seconds, at] = [0, 0, start];
  for (let frame = mp3FrameAt(file, at); frame; frame = mp3FrameAt(file, at)) {
    frames += 1;
    seconds += frame.samples / frame.sampleRate;
    at += frame.bytes;
  }
  return { frames, seconds };
}
