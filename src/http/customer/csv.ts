import type { Exchange } from '../routes.ts';
import { disconnectWhenStalled } from '../stalled-client.ts';

/**
 * A table as a download. The first piece is read before the status goes out, so that a store that
 * is away is a 503 and not a torn file; a failure further down cuts the connection, so that half a
 * table never looks like a whole one. The runtime prints the error that a body fails with, so the
 * log is told and this body fails with null. Pieces are made only as fast as the client takes them.
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
    await Promise.reject(null);
  } finally {
    await rest.return(undefined);
  }
}

let lastRead: Promise<unknown> = Promise.resolve();

/**
 * One piece of one download at a time, with other requests in between: several downloads that are
 * always ready to go on would leave the sockets no time.
 */
function runInTurn<T>(readChunk: () => Promise<T>): Promise<T> {
  const result = lastRead.then(() => Bun.sleep(0)).then(readChunk);
  lastRead = result.catch(() => undefined);
  return result;
}
