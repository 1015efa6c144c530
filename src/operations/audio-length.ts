import { audioMeasureMs } from '../core/bounds.ts';
import type { LongBytes } from '../core/upload.ts';

/** How long a recording may be, before anybody has listened to it. */

/** Speech is seldom packed more tightly: four thousand bits a second. */
const bytesPerSecondLeast = 500;
/** Silence can be; below this a length is absurd. */
const bytesPerSecondAbsurd = 100;

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
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        // Others have their turn between two chunks.
        await new Promise((resolve) => setImmediate(resolve));
        if (performance.now() > until) throw new Error('The time for looking is up.');
        const next = await chunks.next();
        if (next.done) controller.close();
        else controller.enqueue(next.value);
      },
      async cancel() {
        await chunks.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}
