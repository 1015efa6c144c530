import { readEmbeddingsRequest } from '../../dialects/openai/media/embeddings-request.ts';
import { EmbeddingsErrand } from '../../operations/embeddings.ts';
import { type Posted, readJson } from '../body/body.ts';
import { embeddingsDocs } from '../openapi/embeddings.ts';
import { type Route, routesFor } from '../routes.ts';
import { callModel, type ModelCallParts } from './model-call.ts';

const routing = routesFor({ access: 'routing', scope: 'embeddings' });

export function embeddingsRoutes(parts: ModelCallParts): Route[] {
  return [
    routing.post('/v1/embeddings', embeddingsDocs.create, (exchange, caller) => {
      const read = async (posted: Posted) => {
        const { value } = await readJson(posted, parts.bodyBytesMax);
        return new EmbeddingsErrand(readEmbeddingsRequest(value));
      };
      return callModel(exchange, caller, 'embeddings', read, parts);
    }),
  ];
}
