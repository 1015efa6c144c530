import { setImmediate as nextTurn } from 'node:timers/promises';
import { audioMeasureMs } from '../../core/bounds.ts';
import { withTimeout } from '../../core/deadlines.ts';
import type { LongBytes } from '../../core/form.ts';
import { audioTypes } from '../../core/media/audio.ts';
import { id3Bytes } from '../../core/media/audio-files.ts';
import { ByteReader } from '../byte-reader.ts';

/** The content types under which recordings are sent to providers. */
const contentTypes: Readonly<Record<string, string>> = { ...audioTypes, mp4: audioTypes.m4a };

/** The file name that providers see; the client's own is not passed on. */
export function audioFileFor(extension: string): {
  readonly filename: string;
  readonly contentType: string;
} {
  const contentType = contentTypes[extension] ?? 'application/octet-stream';
  return { filename: `audio.${extension}`, contentType };
}

/** How long a recording probably is, before a provider has listened to it. */

/** Speech is seldom compressed to less: four thousand bits a second. */
const speechBytesPerSecond = 500;
/** Silence can take less. A file that claims fewer bytes a second than this is not believed. */
const bytesPerSecondMin = 100;
/**
 * Believed of a file of any size: a codec that pauses with the speaker packs an hour of silence
 * into next to nothing.
 */
const secondsAlwaysPlausible = 3600;

/** A file full of false frame starts takes long to read: others have their turn in between. */
const yieldEveryMs = 10;

/**
 * How much the reader may ask for at once, because it goes through that without a pause: millions
 * of comments would take it half a minute. It skips in steps of 256,000 bytes; of an MP4 file it
 * wants the sizes of all frames, and an hour has 620 kB of them.
 */
const readBytesMax = 256_000;
const mp4ReadBytesMax = 1_000_000;

/** The most seconds of audio that a provider may report for a file of this size. */
export function plausibleSecondsMax(bytes: number): number {
  return Math.max(bytes / bytesPerSecondMin, secondsAlwaysPlausible);
}

/**
 * The length that credits are held for. A file's own claim is believed as long as it is possible.
 */
export function estimatedSeconds(bytes: number, statedSeconds: number | null): number {
  if (statedSeconds === null) return bytes / speechBytesPerSecond;
  return Math.min(statedSeconds, bytes / bytesPerSecondMin);
}

/** A file waits no longer than this for the one before it to be read. */
const queueWaitMs = 5_000;
let lastReading: Promise<unknown> = Promise.resolve();

/**
 * The length that a file states; null when it states none, or takes too long to read. Files are
 * read one after the other: at once, twenty honest files would all take too long.
 */
export function readDurationSeconds(
  content: LongBytes,
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
  content: LongBytes,
  contentType: string,
  withinMs: number,
): Promise<number | null> {
  // Loaded by the first request that needs it: most processes never do.
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

/** Bytes of the ID3 tag at the beginning: pictures and comments that say nothing of the length. */
async function readTagBytes(content: LongBytes): Promise<number> {
  const reader = new ByteReader(content.chunks());
  const head = await reader.take(tagHeadBytes);
  await reader.close();
  return head ? Math.min(content.bytes, id3Bytes(head)) : 0;
}

/** Fails when the time is up, since a part tells no length, and when too much is wanted at once. */
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
      if (performance.now() > deadline) throw new Error('The time for looking is up.');
      const requestedBytes = controller.byobRequest?.view?.byteLength ?? chunkBytesMax;
      if (requestedBytes > chunkBytesMax) throw new Error('A table of this file is too long.');
      // A copy, because the stream takes the memory away from its owner.
      for await (const piece of reader.readUpTo(requestedBytes)) {
        return controller.enqueue(new Uint8Array(piece));
      }
      controller.close();
      controller.byobRequest?.respond(0);
    },
  });
}
