import { setImmediate as nextTurn } from 'node:timers/promises';
import { audioMeasureMs } from '../../core/bounds.ts';
import { id3Bytes } from '../../core/media/mp3-frames.ts';
import type { LongBytes } from '../../core/upload.ts';
import { within } from '../../core/within.ts';
import { ByteReader } from '../byte-reader.ts';

/** How long a recording probably is, before a provider has listened to it. */

/** Speech is seldom compressed to less: four thousand bits a second. */
const bytesPerSecondLeast = 500;
/** Silence can take less. A file that claims fewer bytes a second than this is not believed. */
const bytesPerSecondAbsurd = 100;
/**
 * Believed of a file of any size: a codec that pauses with the speaker packs an hour of silence
 * into next to nothing.
 */
const secondsAlwaysBelieved = 3600;

/** A file full of false frame starts takes long to read: others have their turn in between. */
const turnMs = 10;

/**
 * How much the reader may ask for at once, because it goes through that without a pause: millions
 * of comments would take it half a minute. It skips in steps of 256,000 bytes; of an MP4 file it
 * wants the sizes of all frames, and an hour has 620 kB of them.
 */
const wantedBytesMax = 256_000;
const wantedBytesMaxOfMp4 = 1_000_000;

/** The most seconds of audio that a provider may report for a file of this size. */
export function secondsMax(bytes: number): number {
  return Math.max(bytes / bytesPerSecondAbsurd, secondsAlwaysBelieved);
}

/**
 * The length that credits are held for. A file's own claim is believed as long as it is possible.
 */
export function likelySeconds(bytes: number, claimed: number | null): number {
  if (claimed === null) return bytes / bytesPerSecondLeast;
  return Math.min(claimed, bytes / bytesPerSecondAbsurd);
}

/** A file waits no longer than this for the one before it to be read. */
const lookWaitMs = 5_000;
let lastLook: Promise<unknown> = Promise.resolve();

/**
 * The length that a file states; null when it states none, or takes too long to read. Files are
 * read one after the other: at once, twenty honest files would all take too long.
 */
export function readSeconds(
  content: LongBytes,
  contentType: string,
  withinMs = audioMeasureMs,
): Promise<number | null> {
  const look = within(lastLook, lookWaitMs).then(() => lookInto(content, contentType, withinMs));
  lastLook = look.catch(() => null);
  return look;
}

async function lookInto(
  content: LongBytes,
  contentType: string,
  withinMs: number,
): Promise<number | null> {
  // Loaded by the first request that needs it: most processes never do.
  const { parseWebStream } = await import('music-metadata');
  const until = performance.now() + withinMs;
  const wantedMax = contentType.endsWith('/mp4') ? wantedBytesMaxOfMp4 : wantedBytesMax;
  const reader = new ByteReader(content.chunks());
  try {
    const tagBytes = await tagBytesOf(content);
    const stream = streamOf(reader, tagBytes, { until, wantedMax });
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
async function tagBytesOf(content: LongBytes): Promise<number> {
  const reader = new ByteReader(content.chunks());
  const head = await reader.take(tagHeadBytes);
  await reader.close();
  return head ? Math.min(content.bytes, id3Bytes(head)) : 0;
}

/** Fails when the time is up, since a part tells no length, and when too much is wanted at once. */
function streamOf(
  reader: ByteReader,
  skippedBytes: number,
  { until, wantedMax }: { readonly until: number; readonly wantedMax: number },
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let turnEnds = 0;
  return new ReadableStream({
    type: 'bytes',
    start: () => reader.skip(skippedBytes),
    async pull(controller) {
      if (performance.now() > turnEnds) {
        await nextTurn();
        turnEnds = performance.now() + turnMs;
      }
      if (performance.now() > until) throw new Error('The time for looking is up.');
      const wanted = controller.byobRequest?.view?.byteLength ?? wantedMax;
      if (wanted > wantedMax) throw new Error('A table of this file is too long.');
      // A copy, because the stream takes the memory away from its owner.
      for await (const piece of reader.some(wanted)) {
        return controller.enqueue(new Uint8Array(piece));
      }
      controller.close();
      controller.byobRequest?.respond(0);
    },
  });
}
