import type { UpstreamFailure } from '../dialect.ts';
import { failureInside, malformed } from '../failure.ts';
import type { Batch } from './embeddings.ts';
import { readVector } from './embeddings-wish.ts';

/** The vectors `found` in an answer, in the order of its inputs, or why there are none. */
export function readVectors(
  answer: Record<string, unknown>,
  found: unknown,
  promptTokens: number,
): Batch | UpstreamFailure {
  if (!Array.isArray(found)) {
    return failureInside(answer) ?? malformed('The upstream answered without embeddings.');
  }
  const vectors = found.map(readVector).filter((vector) => vector !== undefined);
  if (vectors.length < found.length) {
    return malformed('The upstream answered with something that is no embedding.');
  }
  return { vectors, promptTokens: promptTokens > 0 ? promptTokens : null };
}
