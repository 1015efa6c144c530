/** Cohere's embeddings, in version 2 of its API. */
import { fieldsOf, isObject, type JsonObject } from '../../core/json.ts';
import type { ReadResult } from '../dialect.ts';
import { readAnswer } from '../failure.ts';
import { type EmbeddingBatch, type EmbeddingsDialect, readVectors } from '../media.ts';
import { presentParameterNames } from '../normalize/requests/vendor-parameters.ts';
import { readCount } from '../normalize/responses/counts.ts';

/** Cohere's maximum number of inputs per call. */
const inputsMax = 96;

export const cohereEmbeddings: EmbeddingsDialect = {
  acceptsTokens: false,
  batchMax: () => inputsMax,
  write({ inputs, dimensions, user, extraFields }, { upstreamModel }) {
    const body = {
      model: upstreamModel,
      // Cohere requires the purpose of the vectors, which OpenAI's format doesn't have.
      input_type: 'search_document',
      embedding_types: ['float'],
      texts: inputs,
      ...(dimensions === null ? {} : { output_dimension: dimensions }),
    };
    const dropped = presentParameterNames({ ...extraFields, user });
    return { path: '/embed', body: JSON.stringify(body), dropped };
  },
  readBatch: (text) => readAnswer(text, read),
};

function read(body: JsonObject): ReadResult<EmbeddingBatch> {
  const { embeddings, meta } = body;
  const found: unknown = isObject(embeddings) ? embeddings.float : embeddings;
  // Cohere charges by billed units, but not every answer reports them.
  const units = fieldsOf(fieldsOf(meta).billed_units);
  return readVectors(body, found, readCount(units.input_tokens));
}
