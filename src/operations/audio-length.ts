import { audioMeasureMs } from '../core/bounds.ts';
import type { LongBytes } from '../core/upload.ts';

/** How long a recording may be, before anybody has listened to it. */

/** Speech is seldom packed more tightly: four thousand bits a second. */
const bytesPerSecondLeast = 500;
/** Silence can be; below this a length is absurd. */
const bytesPerSecondAbsurd = 100;

/**
 * A file of nothing but false beginnings takes the reader ten microseconds a byte, and it does not
 * stop before it needs more: so it gets little at a time, and others have their turn in between.
 */
const pieceBytes = 1024;
const turnMs = 10;

/** No recording of so many bytes is longer. */
export function secondsMax(bytes: number): number {
  return bytes / bytesPerSecondAbsurd;
}

/** What credits are held for. A file's own claim is believed as long as it is possible. */
export function likelySeconds(bytes: number, claimed: number | null): number {
  if (claimed === null) return bytes / bytesPerSecondLeast;
  return Math.min(claimed, secondsMax(bytes));
}

/** What a file says of itself; null when it says nothing, or takes too long to be asked. */
export async function readSeconds(
  content: LongBytes,
  contentType: string,
  withinMs = audioMeasureMs,
): Promise<number | null> {
  // Loaded by the first request that needs it: most processes never do.
  const { parseWebStream } = await import('music-metadata');
  const stream = streamOf(content, performance.now() + withinMs);
  try {
    const info = { mimeType: contentType, size: content.bytes };
    const { format } = await parseWebStream(stream, info, { skipCovers: true, duration: true });
    const { duration } = format;
    return duration !== undefined && Number.isFinite(duration) && duration > 0 ? duration : null;
  } catch {
    return null;
  } finally {
    await stream.cancel().catch(() => undefined);
  }
}

/** Fails when the time is up: the length of a part is not that of the whole. */
function streamOf(content: LongBytes, until: number): ReadableStream<Uint8Array> {
  const chunks = content.chunks()[Symbol.asyncIterator]();
  let rest: Uint8Array = new Uint8Array();
  let turnEnds = 0;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (performance.now() > turnEnds) {
          await new Promise((resolve) => setImmediate(resolve));
          turnEnds = performance.now() + turnMs;
        }
        if (performance.now() > until) throw new Error('The time for looking is up.');
        if (rest.length === 0) {
          const next = await chunks.next();
          if (next.done) return controller.close();
          rest = next.value;
        }
        controller.enqueue(rest.subarray(0, pieceBytes));
        rest = rest.subarray(pieceBytes);
      },
      async cancel() {
        await chunks.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}
