import type { UpstreamFailure } from '../dialect.ts';
import { failureInside, malformed } from '../failure.ts';
import type { Batch } from './embeddings.ts';

/** Numbers, or the same numbers as base64 of little-endian 32-bit floats. */
export type Vector = string | readonly number[];

/** Every machine that this runs on keeps its numbers in little-endian order. */
export function toBase64(vector: Vector): string {
  if (typeof vector === 'string') return vector;
  return Buffer.from(Float32Array.from(vector).buffer).toString('base64');
}

export function toNumbers(vector: Vector): readonly number[] {
  if (typeof vector !== 'string') return vector;
  // A copy, because a view of floats must start at a multiple of four.
  const bytes = new Uint8Array(Buffer.from(vector, 'base64'));
  return Array.from(new Float32Array(bytes.buffer));
}

const base64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** Undefined when `raw` is no vector of at least one number. */
export function readVector(raw: unknown): Vector | undefined {
  if (typeof raw === 'string') {
    const isWhole = raw.length % 4 === 0 && Buffer.byteLength(raw, 'base64') % 4 === 0;
    return isWhole && base64.test(raw) ? raw : undefined;
  }
  if (!Array.isArray(raw) || raw.length === 0) return undefined;
  return raw.every((value) => typeof value === 'number') ? raw : undefined;
}

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
