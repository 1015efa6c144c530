/** Embeddings of Google's Gemini, `batchEmbedContents`. */
import { type Fields, fieldsOf } from '../../core/json.ts';
import { readCount } from '../answer/counts.ts';
import type { UpstreamFailure } from '../dialect.ts';
import type { Batch, EmbeddingsDialect } from '../media/embeddings.ts';
import { readVectors } from '../media/vectors.ts';
import { namesGiven } from '../parameters.ts';
import { readAnswer } from '../read-answer.ts';
import { modelName, modelPath } from './model.ts';

/** The most requests that Gemini takes in one batch. */
const requestsMax = 100;

export const geminiEmbeddings: EmbeddingsDialect = {
  takesTokens: false,
  batchMax: () => requestsMax,
  write({ inputs, dimensions, user, more }, { upstreamModel }) {
    const size = dimensions === null ? {} : { outputDimensionality: dimensions };
    const requests = inputs.map((text) => ({
      model: `models/${modelName(upstreamModel)}`,
      content: { parts: [{ text }] },
      ...size,
    }));
    return {
      path: modelPath(upstreamModel, 'batchEmbedContents'),
      body: JSON.stringify({ requests }),
      dropped: namesGiven({ ...more, user }),
    };
  },
  read: (text) => readAnswer(text, read),
};

function read(body: Fields): Batch | UpstreamFailure {
  const { embeddings, usageMetadata: usage } = body;
  const found = Array.isArray(embeddings)
    ? embeddings.map((item) => fieldsOf(item).values)
    : undefined;
  // Only Gemini's newer models count tokens.
  return readVectors(body, found, readCount(fieldsOf(usage).promptTokenCount));
}
