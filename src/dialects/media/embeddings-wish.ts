/** A text, or the numbers of its tokens as OpenAI's cl100k_base cuts them. */
export type Input = string | readonly number[];

/** Numbers, or the same as base64 of little-endian 32-bit floats. */
export type Vector = string | readonly number[];

/** What a client wants embedded, and how. */
export interface EmbeddingsWish {
  readonly inputs: readonly Input[];
  /** A single input may come alone or as a list of one; it goes on as it came. */
  readonly isList: boolean;
  readonly encoding: 'float' | 'base64';
  readonly dimensions: number | null;
  readonly user: string | null;
  /** Fields that nobody here has heard of; upstreams of OpenAI's kind may. */
  readonly more: Readonly<Record<string, unknown>>;
}

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

/** Undefined when it is no vector of at least one number. */
export function readVector(raw: unknown): Vector | undefined {
  if (typeof raw === 'string') {
    const isWhole = raw.length % 4 === 0 && Buffer.byteLength(raw, 'base64') % 4 === 0;
    return isWhole && base64.test(raw) ? raw : undefined;
  }
  if (!Array.isArray(raw) || raw.length === 0) return undefined;
  return raw.every((value) => typeof value === 'number') ? raw : undefined;
}
