/** Embeddings of Google's Gemini, `batchEmbedContents`. */
import { isObject } from '../../core/json.ts';
import type { UpstreamFailure } from '../dialect.ts';
import type { Batch, EmbeddingsDialect } from '../embeddings.ts';
import { readVector, type Vector } from '../embeddings-wish.ts';
import { failureInside, malformed } from '../failure.ts';
import { readCount } from '../openai/usage.ts';
import { readAnswer } from '../read-answer.ts';

/** Requests of one batch. */
const requestsMax = 100;

export const geminiEmbeddings: EmbeddingsDialect = {
  takesTokens: false,
  batchMax: () => requestsMax,
  write({ inputs, dimensions, user, more }, { upstreamModel }) {
    const name = upstreamModel.replace(/^models\//, '').toWellFormed();
    const size = dimensions === null ? {} : { outputDimensionality: dimensions };
    const requests = inputs.map((text) => ({
      model: `models/${name}`,
      content: { parts: [{ text }] },
      ...size,
    }));
    return {
      path: `/models/${encodeURIComponent(name)}:batchEmbedContents`,

      body: JSON.stringify({ requests }),
      dropped: [...Object.keys(more), ...(user === null ? [] : ['user'])],
    };
  },
  read: (text) => readAnswer(text, read),
};

function read(body: Record<string, unknown>): Batch | UpstreamFailure {
  if (!Array.isArray(body.embeddings)) {
    return failureInside(body) ?? malformed('The upstream answered without embeddings.');
  }
  const found = body.embeddings.map((item) => readVector(isObject(item) ? item.values : undefined));
  const vectors = found.filter((vector): vector is Vector => vector !== undefined);
  if (vectors.length < found.length) {
    return malformed('The upstream answered with something that is no embedding.');
  }
  return { vectors, promptTokens: countedTokens(body.usageMetadata) };
}

/** Only its newer models count. */
function countedTokens(usage: unknown): number | null {
  const tokens = isObject(usage) ? readCount(usage.promptTokenCount) : 0;
  return tokens > 0 ? tokens : null;
}
