import type { Exchange } from './exchange.ts';

/**
 * A table as a download. The first piece is read before the status goes out, so that a store that
 * is away is a 503 and not a torn file; a failure further down cuts the connection, so that half a
 * table never looks like a whole one. Pieces are made only as fast as the client takes them.
 */
export async function csvReply(
  exchange: Exchange,
  fileName: string,
  pieces: AsyncGenerator<string>,
): Promise<Response> {
  const first = await pieces.next();
  return new Response(resumed(first, pieces), {
    headers: {
      'content-type': 'text/csv; charset=utf-8',
      'content-disposition': `attachment; filename="${fileName}"`,
      ...exchange.headers,
    },
  });
}

async function* resumed(
  first: IteratorResult<string>,
  rest: AsyncGenerator<string>,
): AsyncGenerator<string> {
  if (first.done) return;
  yield first.value;
  yield* rest;
}
