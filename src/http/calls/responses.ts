import { responsesConversation } from '../../dialects/responses/conversation.ts';
import { readResponsesRequest } from '../../dialects/responses/request.ts';
import { type Posted, readJson } from '../body/body.ts';
import { responsesDocs } from '../openapi/responses.ts';
import { type Route, routesFor } from '../routes.ts';
import type { ChatParts } from './chat.ts';
import { callModel } from './model-call.ts';

const routing = routesFor({ access: 'routing', scope: 'chat' });

/** OpenAI's newer endpoint, for every model. No response is stored, so there is none to fetch. */
export function responsesRoutes(parts: ChatParts): Route[] {
  return [
    routing.post('/v1/responses', responsesDocs.create, (exchange, caller) => {
      const read = async (posted: Posted) => {
        const body = await readJson(posted, parts.bodyBytesMax);
        const request = readResponsesRequest(body.value, body, caller.tenantId);
        return parts.errandOf(responsesConversation(request), caller);
      };
      return callModel(exchange, caller, 'chat', read, parts);
    }),
  ];
}
