import { asGatewayError } from '../../core/errors.ts';
import type { Exchange } from '../routes.ts';
import { disconnectWhenStalled } from '../stalled-client.ts';

/**
 * Sends a table as a download. The first chunk is read before the status is sent, so that an
 * unreachable store results in a 503 instead of a truncated file. A later failure cuts the
 * connection, so that a partial table never looks complete. Chunks are produced only as fast as
 * the client reads them.
 */
export async function csvReply(
  exchange: Exchange,
  fileName: string,
  chunks: AsyncGenerator<string>,
): Promise<Response> {
  const first = await runInTurn(() => chunks.next());
  return new Response(disconnectWhenStalled(exchange, continueFrom(exchange, first, chunks)), {
    headers: {
      'content-type': 'text/csv; charset=utf-8',
      'content-disposition': `attachment; filename="${fileName}"`,
      ...exchange.headers,
    },
  });
}

async function* continueFrom(
  exchange: Exchange,
  first: IteratorResult<string>,
  rest: AsyncGenerator<string>,
): AsyncGenerator<string> {
  try {
    for (let chunk = first; !chunk.done; chunk = await runInTurn(() => rest.next()))
      yield chunk.value;
  } catch (error) {
    exchange.reportLateError(exchange, error);
    throw asGatewayError(error);
  } finally {
    await rest.return(undefined);
  }
}

let lastRead: Promise<unknown> = Promise.resolve();

/**
 * Reads one chunk at a time across all downloads, and yields to other requests in between.
 * Otherwise several downloads that always have a chunk ready would starve the sockets.
 */
function runInTurn<T>(readChunk: () => Promise<T>): Promise<T> {
  const result = lastRead.then(() => Bun.sleep(0)).then(readChunk);
  lastRead = result.catch(() => undefined);
  return result;
}
