import { readEmbeddingsRequest } from '../../dialects/openai/media/embeddings-request.ts';
import { EmbeddingsErrand } from '../../operations/embeddings.ts';
import { readJson } from '../body/body.ts';
import { embeddingsDocs } from '../openapi/embeddings.ts';
import type { Route } from '../routes.ts';
import { callModel, type ModelCallParts } from './model-call.ts';

export function embeddingsRoutes(parts: ModelCallParts): Route[] {
  return [
    {
      method: 'POST',
      path: '/v1/embeddings',
      doc: embeddingsDocs.create,
      access: 'routing',
      scope: 'embeddings',
      handle(exchange, caller) {
        const read = async () => {
          const { value } = await readJson(exchange, parts.bodyBytesMax);
          return new EmbeddingsErrand(readEmbeddingsRequest(value));
        };
        return callModel(exchange, caller, 'embeddings', read, parts);
      },
    },
  ];
}
