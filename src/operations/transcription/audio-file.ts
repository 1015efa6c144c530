import { setImmediate as nextTurn } from 'node:timers/promises';
import { audioMeasureMs } from '../../core/bounds.ts';
import { withTimeout } from '../../core/deadlines.ts';
import type { StreamedContent } from '../../core/form.ts';
import { audioTypes } from '../../core/media/audio.ts';
import { id3Bytes } from '../../core/media/audio-files.ts';
import { ByteReader } from '../../core/media/byte-reader.ts';

/** Content types of audio files sent to providers. */
const contentTypes: Readonly<Record<string, string>> = { ...audioTypes, mp4: audioTypes.m4a };

/** Returns the file name and content type to send. The client's file name is not passed on. */
export function audioFileFor(extension: string): {
  readonly filename: string;
  readonly contentType: string;
} {
  const contentType = contentTypes[extension] ?? 'application/octet-stream';
  return { filename: `audio.${extension}`, contentType };
}

// Estimates the duration of an audio file before a provider has processed it.

/** Speech is rarely compressed below 4 kbit/s. */
const speechBytesPerSecond = 500;
/** Silence can take less than speech, but a file with fewer bytes per second isn't plausible. */
const bytesPerSecondMin = 100;
/**
 * A duration up to this is plausible for a file of any size: an hour of silence may be encoded in a
 * few bytes.
 */
const secondsAlwaysPlausible = 3600;

/**
 * A file full of false frame starts takes a long time to parse, so the event loop runs in between.
 */
const yieldEveryMs = 10;

/**
 * The most bytes that the parser may request at once. It processes them without a pause, so a
 * tag with millions of comments would block the event loop for 30 s. It skips data in steps of
 * 256,000 bytes. For MP4, it needs the sizes of all frames, which take 620 kB for an hour of audio.
 */
const readBytesMax = 256_000;
const mp4ReadBytesMax = 1_000_000;

/** Some providers charge a minimum duration: 10 seconds, 15 seconds, or a minute. */
const minimumMax = 60;

/** Some providers count only the seconds with speech, but rarely less than this share. */
const speechShareMin = 0.2;

/**
 * Returns the reported duration if a file of this size can have it. Otherwise, returns the duration
 * for which credits are held, or null if no duration was stated in the file and 0 was reported.
 */
export function plausibleSeconds(
  reported: number,
  bytes: number,
  statedSeconds: number | null,
): number | null {
  const measured = estimatedSeconds(bytes, statedSeconds);
  if (reported > Math.max(bytes / bytesPerSecondMin, secondsAlwaysPlausible)) return measured;
  if (statedSeconds === null) return reported > 0 ? reported : null;
  // The header of joined files may state only the duration of the first one.
  const longest = Math.max(statedSeconds * 5, bytes / speechBytesPerSecond, minimumMax);
  return reported < measured * speechShareMin || reported > longest ? measured : reported;
}

/**
 * Returns the duration for which credits are held. A duration stated in the file is limited by the
 * file's size.
 */
export function estimatedSeconds(bytes: number, statedSeconds: number | null): number {
  if (statedSeconds === null) return bytes / speechBytesPerSecond;
  return Math.min(statedSeconds, bytes / bytesPerSecondMin);
}

/** How long a file waits for the previous file to be parsed. */
const queueWaitMs = 5_000;
let lastReading: Promise<unknown> = Promise.resolve();

/**
 * Returns the duration that a file states, or null if it states none or takes too long to parse.
 * Files are parsed one at a time: if 20 valid files were parsed at once, all of them would time
 * out.
 */
export function readDurationSeconds(
  content: StreamedContent,
  contentType: string,
  withinMs = audioMeasureMs,
): Promise<number | null> {
  const reading = withTimeout(lastReading, queueWaitMs).then(() =>
    parseDuration(content, contentType, withinMs),
  );
  lastReading = reading.catch(() => null);
  return reading;
}

async function parseDuration(
  content: StreamedContent,
  contentType: string,
  withinMs: number,
): Promise<number | null> {
  // Loaded on first use, because most processes never need it.
  const { parseWebStream } = await import('music-metadata');
  const deadline = performance.now() + withinMs;
  const chunkBytesMax = contentType.endsWith('/mp4') ? mp4ReadBytesMax : readBytesMax;
  const reader = new ByteReader(content.chunks());
  try {
    const tagBytes = await readTagBytes(content);
    const stream = boundedStream(reader, tagBytes, { deadline, chunkBytesMax });
    const info = { mimeType: contentType, size: content.bytes - tagBytes };
    const { format } = await parseWebStream(stream, info, { skipCovers: true, duration: true });
    const { duration } = format;
    return duration !== undefined && Number.isFinite(duration) && duration > 0 ? duration : null;
  } catch {
    return null;
  } finally {
    await reader.close();
  }
}

const tagHeadBytes = 10;

/** Returns the size of the ID3 tag at the start. It has images and comments, but no duration. */
async function readTagBytes(content: StreamedContent): Promise<number> {
  const reader = new ByteReader(content.chunks());
  const head = await reader.take(tagHeadBytes);
  await reader.close();
  return head ? Math.min(content.bytes, id3Bytes(head)) : 0;
}

/** Returns a stream that fails at the deadline, or if too many bytes are requested at once. */
function boundedStream(
  reader: ByteReader,
  skippedBytes: number,
  { deadline, chunkBytesMax }: { readonly deadline: number; readonly chunkBytesMax: number },
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let yieldAt = 0;
  return new ReadableStream({
    type: 'bytes',
    start: () => reader.skip(skippedBytes),
    async pull(controller) {
      if (performance.now() > yieldAt) {
        await nextTurn();
        yieldAt = performance.now() + yieldEveryMs;
      }
      if (performance.now() > deadline) throw new Error('Parsing took too long.');
      const requestedBytes = controller.byobRequest?.view?.byteLength ?? chunkBytesMax;
      if (requestedBytes > chunkBytesMax) throw new Error('A table of this file is too large.');
      // Copy the chunk, because the stream detaches its memory.
      for await (const chunk of reader.readUpTo(requestedBytes)) {
        return controller.enqueue(new Uint8Array(chunk));
      }
      controller.close();
      controller.byobRequest?.respond(0);
    },
  });
}
