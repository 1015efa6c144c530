import { setImmediate as nextTurn } from 'node:timers/promises';
import { idempotentLengthMax } from '../core/bounds.ts';
import { fieldsOf, isObject, parseJson } from '../core/json.ts';
import { noUsage } from '../core/usage.ts';
import type { ReplyIdentity, ReplyRelay } from '../dialects/dialect.ts';
import type { EmbeddingsWish } from '../dialects/media/embeddings.ts';
import { readVector, toBase64, toNumbers, type Vector } from '../dialects/media/vectors.ts';
import { noFacts } from '../upstream/try-whole.ts';

/** Vectors written in one go before other requests have their turn: a few milliseconds. */
const vectorsAtOnce = 32;

type Encoding = EmbeddingsWish['encoding'];

export interface InputCount {
  readonly tokens: number;
  readonly isEstimate: boolean;
}

/** An answer of vectors, as its client wants to read it. */
export class EmbeddingsReply {
  readonly #items: readonly string[];
  readonly #count: InputCount;

  private constructor(items: readonly string[], count: InputCount) {
    this.#items = items;
    this.#count = count;
  }

  static async make(
    vectors: readonly Vector[],
    count: InputCount,
    encoding: Encoding,
  ): Promise<EmbeddingsReply> {
    const items: string[] = [];
    for (const [index, vector] of vectors.entries()) {
      items.push(itemOf(vector, index, encoding));
      if (index % vectorsAtOnce === vectorsAtOnce - 1) {
        await nextTurn();
      }
    }
    return new EmbeddingsReply(items, count);
  }

  /** An answer that was recorded, in either encoding. */
  static replay(text: string, encoding: Encoding): EmbeddingsReply | undefined {
    const recorded = parseJson(text);
    if (!isObject(recorded) || !Array.isArray(recorded.data)) return undefined;
    const items: string[] = [];
    for (const [index, item] of recorded.data.entries()) {
      const vector = readVector(fieldsOf(item).embedding);
      if (vector === undefined) return undefined;
      items.push(itemOf(vector, index, encoding));
    }
    return new EmbeddingsReply(items, { tokens: Number(recorded.tokens), isEstimate: false });
  }

  /** Undefined when the answer is too long to be kept: then its text is not even put together. */
  record(): string | undefined {
    const length = this.#items.reduce((sum, item) => sum + item.length, 0);
    if (length > idempotentLengthMax) return undefined;
    return `{"tokens":${this.#count.tokens},"data":[${this.#items.join(',')}]}`;
  }

  relay({ model }: ReplyIdentity): ReplyRelay {
    const { tokens, isEstimate } = this.#count;
    const facts = { ...noFacts, usage: { ...noUsage, inputTokens: tokens }, isEstimate };
    const told = JSON.stringify({ prompt_tokens: tokens, total_tokens: tokens });
    return {
      facts,
      write: () =>
        `{"object":"list","data":[${this.#items.join(',')}],` +
        `"model":${JSON.stringify(model)},"usage":${told}}`,
    };
  }
}

function itemOf(vector: Vector, index: number, encoding: Encoding): string {
  const embedding = encoding === 'base64' ? toBase64(vector) : toNumbers(vector);
  return JSON.stringify({ object: 'embedding', index, embedding });
}
