import { setImmediate as nextTurn } from 'node:timers/promises';
import { idempotentLengthMax } from '../../core/bounds.ts';
import { fieldsOf, isObject, parseJson } from '../../core/json.ts';
import { noUsage } from '../../core/usage.ts';
import type { ReplyIdentity, TransformedReply } from '../../dialects/dialect.ts';
import {
  type EmbeddingsOptions,
  readVector,
  toBase64,
  toNumbers,
  type Vector,
} from '../../dialects/media.ts';
import { noMetrics } from '../../upstream/attempt.ts';

/** Vectors formatted before the event loop runs again: a few milliseconds of work. */
const vectorsPerTurn = 32;

type Encoding = EmbeddingsOptions['encoding'];

export interface InputCount {
  readonly tokens: number;
  readonly isEstimate: boolean;
}

/** An embeddings answer in the encoding that the client requested. */
export class EmbeddingsReply {
  readonly #items: readonly string[];
  readonly #count: InputCount;

  private constructor(items: readonly string[], count: InputCount) {
    this.#items = items;
    this.#count = count;
  }

  static async create(
    vectors: readonly Vector[],
    count: InputCount,
    encoding: Encoding,
  ): Promise<EmbeddingsReply> {
    const items: string[] = [];
    for (const [index, vector] of vectors.entries()) {
      items.push(embeddingItem(vector, index, encoding));
      if (index % vectorsPerTurn === vectorsPerTurn - 1) {
        await nextTurn();
      }
    }
    return new EmbeddingsReply(items, count);
  }

  /** Reads a recording, which may have either encoding. Returns undefined if it isn't valid. */
  static replay(text: string, encoding: Encoding): EmbeddingsReply | undefined {
    const recorded = parseJson(text);
    if (!isObject(recorded) || !Array.isArray(recorded.data)) return undefined;
    const items: string[] = [];
    for (const [index, item] of recorded.data.entries()) {
      const vector = readVector(fieldsOf(item).embedding);
      if (vector === undefined) return undefined;
      items.push(embeddingItem(vector, index, encoding));
    }
    return new EmbeddingsReply(items, { tokens: Number(recorded.tokens), isEstimate: false });
  }

  /** Returns undefined if the answer is too long to be stored. */
  toRecording(): string | undefined {
    const length = this.#items.reduce((sum, item) => sum + item.length, 0);
    if (length > idempotentLengthMax) return undefined;
    return `{"tokens":${this.#count.tokens},"data":[${this.#items.join(',')}]}`;
  }

  toReply({ model }: ReplyIdentity): TransformedReply {
    const { tokens, isEstimate } = this.#count;
    const metrics = { ...noMetrics, usage: { ...noUsage, inputTokens: tokens }, isEstimate };
    const usageJson = JSON.stringify({ prompt_tokens: tokens, total_tokens: tokens });
    return {
      metrics,
      write: () =>
        `{"object":"list","data":[${this.#items.join(',')}],` +
        `"model":${JSON.stringify(model)},"usage":${usageJson}}`,
    };
  }
}

function embeddingItem(vector: Vector, index: number, encoding: Encoding): string {
  const embedding = encoding === 'base64' ? toBase64(vector) : toNumbers(vector);
  return JSON.stringify({ object: 'embedding', index, embedding });
}
