/** Embeddings of Cohere's API, version 2. */
import { type Fields, fieldsOf, isObject } from '../../core/json.ts';
import { readCount } from '../answer/counts.ts';
import type { UpstreamFailure } from '../dialect.ts';
import type { Batch, EmbeddingsDialect } from '../media/embeddings.ts';
import { readVectors } from '../media/vectors.ts';
import { namesGiven } from '../parameters.ts';
import { readAnswer } from '../read-answer.ts';

/** The most texts that Cohere takes in one call. */
const textsMax = 96;

export const cohereEmbeddings: EmbeddingsDialect = {
  takesTokens: false,
  batchMax: () => textsMax,
  write({ inputs, dimensions, user, more }, { upstreamModel }) {
    const body = {
      model: upstreamModel,
      // Cohere must be told what the vectors are for, and OpenAI's words cannot say it.
      input_type: 'search_document',
      embedding_types: ['float'],
      texts: inputs,
      ...(dimensions === null ? {} : { output_dimension: dimensions }),
    };
    const dropped = namesGiven({ ...more, user });
    return { path: '/embed', body: JSON.stringify(body), dropped };
  },
  read: (text) => readAnswer(text, read),
};

function read(body: Fields): Batch | UpstreamFailure {
  const { embeddings, meta } = body;
  const found: unknown = isObject(embeddings) ? embeddings.float : embeddings;
  // Not every answer has billed units; where they are given, Cohere's prices count by them.
  const units = fieldsOf(fieldsOf(meta).billed_units);
  return readVectors(body, found, readCount(units.input_tokens));
}
