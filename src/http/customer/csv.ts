import type { Exchange } from '../exchange.ts';
import { cutWhenStalled } from '../stalled-client.ts';

/**
 * A table as a download. The first piece is read before the status goes out, so that a store that
 * is away is a 503 and not a torn file; a failure further down cuts the connection, so that half a
 * table never looks like a whole one. The runtime prints the error that a body fails with, so the
 * log is told and this body fails with null. Pieces are made only as fast as the client takes them.
 */
export async function csvReply(
  exchange: Exchange,
  fileName: string,
  pieces: AsyncGenerator<string>,
): Promise<Response> {
  const first = await inTurn(() => pieces.next());
  return new Response(cutWhenStalled(exchange, resumed(exchange, first, pieces)), {
    headers: {
      'content-type': 'text/csv; charset=utf-8',
      'content-disposition': `attachment; filename="${fileName}"`,
      ...exchange.headers,
    },
  });
}

async function* resumed(
  exchange: Exchange,
  first: IteratorResult<string>,
  rest: AsyncGenerator<string>,
): AsyncGenerator<string> {
  try {
    for (let piece = first; !piece.done; piece = await inTurn(() => rest.next())) yield piece.value;
  } catch (thrown) {
    exchange.tellLate(exchange, thrown);
    await Promise.reject(null);
  } finally {
    await rest.return(undefined);
  }
}

let lastTurn: Promise<unknown> = Promise.resolve();

/**
 * One piece of one download at a time, with other requests in between: several downloads that are
 * always ready to go on would leave the sockets no time.
 */
function inTurn<T>(make: () => Promise<T>): Promise<T> {
  const turn = lastTurn.then(() => Bun.sleep(0)).then(make);
  lastTurn = turn.catch(() => undefined);
  return turn;
}
