import { embeddingsDocs } from '../../contract/media.ts';
import { readEmbeddingsRequest } from '../../dialects/openai-media/embeddings.ts';
import { EmbeddingsOperation } from '../../operations/embeddings/embeddings-operation.ts';
import { type IncomingRequest, readJson } from '../body/body.ts';
import { type Route, routesFor } from '../routes.ts';
import { callModel, type ModelCallDeps } from './model-call.ts';

const routing = routesFor({ access: 'routing', scope: 'embeddings' });

export function embeddingsRoutes(deps: ModelCallDeps): Route[] {
  return [
    routing.post('/v1/embeddings', embeddingsDocs.create, (exchange, caller) => {
      const read = async (incoming: IncomingRequest) => {
        const { value } = await readJson(incoming, deps.bodyBytesMax);
        return new EmbeddingsOperation(readEmbeddingsRequest(value));
      };
      return callModel(exchange, caller, 'embeddings', read, deps);
    }),
  ];
}
