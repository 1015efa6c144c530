import type { ReadableStreamDefaultReader } from 'node:stream/web';
import { refusedBodyMsMax } from '../../core/bounds.ts';
import type { Exchange } from '../exchange.ts';

/**
 * Bodies that were refused are let come to their end. Whoever is still sending on a connection
 * that closes would not hear the refusal: bytes that nobody reads make the system reset it, and a
 * proxy says 502 in our place. Where a connection stays open, the runtime reads the rest by itself.
 */

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** Of a body that was begun. */
export function discardRest(request: Request, reader: Reader): Promise<void> {
  return isLast(request) ? readToEnd(reader) : stop(reader);
}

/** Of one that nobody has begun. */
export async function discardUnread({ request, headers }: Exchange): Promise<void> {
  if (!isLast(request) && headers.connection !== 'close') return;
  if (request.body === null || request.bodyUsed) return;
  await readToEnd(request.body.getReader());
}

/** Proxies that make a connection for each request say so. */
const isLast = ({ headers }: Request) => /\bclose\b/i.test(headers.get('connection') ?? '');

async function readToEnd(reader: Reader): Promise<void> {
  const timer = setTimeout(() => stop(reader), refusedBodyMsMax);
  try {
    while (!(await reader.read()).done);
  } catch {
    // Its client is gone.
  } finally {
    clearTimeout(timer);
  }
}

/** A client that is gone makes this fail, and nobody needs to hear of it. */
async function stop(reader: Reader): Promise<void> {
  await reader.cancel().catch(() => undefined);
}
