import type { ReadableStreamDefaultReader } from 'node:stream/web';
import { refusedBodyMsMax } from '../../core/bounds.ts';
import type { Exchange } from '../exchange.ts';

/**
 * Refused bodies are read to their end. A client that is still sending on a connection that closes
 * would not hear the refusal: unread bytes make the system reset the connection, and a proxy says
 * 502 in our place. Where a connection stays open, the runtime reads the rest by itself.
 */

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** Discards the rest of a body that was begun. */
export function discardRest(request: Request, reader: Reader): Promise<void> {
  return isLast(request) ? readToEnd(reader) : stop(reader);
}

/** Discards a body that nobody has begun to read. */
export async function discardUnread({ request, headers }: Exchange): Promise<void> {
  if (!isLast(request) && headers.connection !== 'close') return;
  if (request.body === null || request.bodyUsed) return;
  await readToEnd(request.body.getReader());
}

/** Whether the connection ends here: proxies that open one for each request say so. */
const isLast = ({ headers }: Request) => /\bclose\b/i.test(headers.get('connection') ?? '');

async function readToEnd(reader: Reader): Promise<void> {
  const timer = setTimeout(() => stop(reader), refusedBodyMsMax);
  try {
    while (!(await reader.read()).done);
  } catch {
    // The client is gone.
  } finally {
    clearTimeout(timer);
  }
}

/** Fails when the client is gone, which nobody needs to hear of. */
async function stop(reader: Reader): Promise<void> {
  await reader.cancel().catch(() => undefined);
}
