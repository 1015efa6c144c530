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
      const read = (incoming: IncomingRequest) => readEmbeddings(incoming, deps);
      return callModel(exchange, caller, 'embeddings', read, deps);
    }),
  ];
}

export async function readEmbeddings(
  incoming: IncomingRequest,
  { bodyBytesMax }: Pick<ModelCallDeps, 'bodyBytesMax'>,
): Promise<EmbeddingsOperation> {
  const { value } = await readJson(incoming, bodyBytesMax);
  return new EmbeddingsOperation(readEmbeddingsRequest(value));
}
