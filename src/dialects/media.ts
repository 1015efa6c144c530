import type { LongBytes } from '../core/form.ts';
import type { Usage } from '../core/usage.ts';
import type { ReadResult } from './dialect.ts';
import { failureInside, malformed } from './failure.ts';
import type { EmbeddingBatch } from './registry.ts';

export interface ImageFile {
  readonly mediaType: 'image/png' | 'image/jpeg' | 'image/webp';
  readonly content: LongBytes;
}

export interface ImageParameters {
  readonly size: string | null;
  readonly quality: 'low' | 'medium' | 'high' | 'auto' | null;
  readonly background: string | null;
  readonly output_format: string | null;
  readonly user: string | null;
}

/** An image that a client wants made from words, or out of others. */
export interface ImageOptions {
  readonly prompt: string;
  /** The images to edit, the main one first; none when the image is made from words alone. */
  readonly images: readonly ImageFile[];
  /** Where to edit, in the form that the upstream understands; null when everything may change. */
  readonly mask: ImageFile | null;
  readonly parameters: ImageParameters;
  /** Fields that the gateway does not know; OpenAI-style upstreams may. */
  readonly more: Readonly<Record<string, unknown>>;
}

const maskInstruction =
  'The last image is a mask of the first one: change only what is white in the mask, and leave ' +
  'everything that is black in it exactly as it is.';

/**
 * For upstreams that know no masks: the mask goes along as the last image, and the prompt explains
 * it.
 */
export function withMaskAsImage({ prompt, images, mask }: ImageOptions): {
  readonly prompt: string;
  readonly images: readonly ImageFile[];
} {
  if (!mask) return { prompt, images };
  return { prompt: `${prompt}\n\n${maskInstruction}`, images: [...images, mask] };
}

/** One image of an answer: its bytes, or where they are. */
export interface GeneratedImage {
  readonly base64: string | null;
  readonly url: string | null;
  readonly revisedPrompt: string | null;
}

export interface GeneratedImages {
  readonly images: readonly GeneratedImage[];
  /** Undefined when the upstream did not count. */
  readonly usage: Usage | undefined;
  /** What the upstream says about its images; `usageDetails`: about its token counts. */
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly usageDetails: Readonly<Record<string, unknown>>;
}

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
    const isAligned = raw.length % 4 === 0 && Buffer.byteLength(raw, 'base64') % 4 === 0;
    return isAligned && base64.test(raw) ? raw : undefined;
  }
  if (!Array.isArray(raw) || raw.length === 0) return undefined;
  return raw.every((value) => typeof value === 'number') ? raw : undefined;
}

/** The vectors `found` in an answer, in the order of its inputs, or why there are none. */
export function readVectors(
  answer: Record<string, unknown>,
  found: unknown,
  promptTokens: number,
): ReadResult<EmbeddingBatch> {
  if (!Array.isArray(found)) {
    const failure = failureInside(answer) ?? malformed('The upstream answered without embeddings.');
    return { ok: false, failure };
  }
  const vectors = found.map(readVector).filter((vector) => vector !== undefined);
  if (vectors.length < found.length) {
    const failure = malformed('The upstream answered with something that is no embedding.');
    return { ok: false, failure };
  }
  return { ok: true, value: { vectors, promptTokens: promptTokens > 0 ? promptTokens : null } };
}
