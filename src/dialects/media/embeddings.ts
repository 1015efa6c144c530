import type { DialectName } from '../../config/provider-schema.ts';
import { cohereEmbeddings } from '../cohere/embeddings.ts';
import type { MediaTarget, UpstreamFailure, UpstreamRequest } from '../dialect.ts';
import { geminiEmbeddings } from '../gemini/embeddings.ts';
import { openAiEmbeddings } from '../openai/media/embeddings.ts';
import type { Vector } from './vectors.ts';

/** A text, or the numbers of its tokens as OpenAI's cl100k_base cuts them. */
export type Input = string | readonly number[];

/** What a client wants embedded, and how. */
export interface EmbeddingsWish {
  readonly inputs: readonly Input[];
  /** A single input may come alone or as a list of one; it goes on as it came. */
  readonly isList: boolean;
  readonly encoding: 'float' | 'base64';
  readonly dimensions: number | null;
  readonly user: string | null;
  /** Fields that the gateway does not know; OpenAI-style upstreams may. */
  readonly more: Readonly<Record<string, unknown>>;
}

/** One call's worth of vectors, in the order of its inputs. */
export interface Batch {
  readonly vectors: readonly Vector[];
  /** As the upstream counted them; null when it did not. */
  readonly promptTokens: number | null;
}

/** How a dialect embeds: our words into its requests, its answers into vectors. */
export interface EmbeddingsDialect {
  /** Whether it takes token numbers as inputs; for others they are turned into text first. */
  readonly takesTokens: boolean;
  /** The most inputs of one call; more are sent in several calls. */
  batchMax(wish: EmbeddingsWish): number;
  write(wish: EmbeddingsWish, target: MediaTarget): UpstreamRequest;
  read(text: string): Batch | UpstreamFailure;
}

const dialects: Partial<Record<DialectName, EmbeddingsDialect>> = {
  openai: openAiEmbeddings,
  siliconflow: openAiEmbeddings,
  cohere: cohereEmbeddings,
  gemini: geminiEmbeddings,
};

/** Undefined when that dialect has no embeddings. */
export function embeddingsDialect(name: DialectName): EmbeddingsDialect | undefined {
  return dialects[name];
}
