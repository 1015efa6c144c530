/** Embeddings of Cohere's API, version 2. */
import { type Fields, fieldsOf, isObject } from '../../core/json.ts';
import type { ReadResult } from '../dialect.ts';
import { readAnswer } from '../failure.ts';
import { type EmbeddingBatch, type EmbeddingsDialect, readVectors } from '../media.ts';
import { presentParameterNames } from '../normalize/requests/vendor-parameters.ts';
import { readCount } from '../normalize/responses/counts.ts';

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
    const dropped = presentParameterNames({ ...more, user });
    return { path: '/embed', body: JSON.stringify(body), dropped };
  },
  readBatch: (text) => readAnswer(text, read),
};

function read(body: Fields): ReadResult<EmbeddingBatch> {
  const { embeddings, meta } = body;
  const found: unknown = isObject(embeddings) ? embeddings.float : embeddings;
  // Not every answer has billed units; where they are given, Cohere's prices count by them.
  const units = fieldsOf(fieldsOf(meta).billed_units);
  return readVectors(body, found, readCount(units.input_tokens));
}
