import type { Errand } from '../../call.ts';
import type { Caller } from '../../core/caller.ts';
import type { Conversation } from '../../dialects/dialect.ts';
import { readChatRequest } from '../../dialects/openai/chat-request.ts';
import { openAiConversation } from '../../dialects/openai/conversation.ts';
import { type Posted, readJson } from '../body/body.ts';
import { chatDocs } from '../openapi/chat.ts';
import { type Route, routesFor } from '../routes.ts';
import { callModel, type ModelCallParts } from './model-call.ts';

export interface ChatParts extends ModelCallParts {
  /** Makes the errand of a conversation, with everything it asks for. 400 */
  errandOf(conversation: Conversation, caller: Caller): Errand | Promise<Errand>;
}

const routing = routesFor({ access: 'routing', scope: 'chat' });

export function chatRoutes(parts: ChatParts): Route[] {
  return [
    routing.post('/v1/chat/completions', chatDocs.complete, (exchange, caller) => {
      const read = async (posted: Posted) => {
        const body = await readJson(posted, parts.bodyBytesMax);
        // OpenRouter's clients never ask for usage and always expect it.
        const { openRouterStyle } = exchange;
        const request = readChatRequest(body.value, body, openRouterStyle, caller.tenantId);
        return parts.errandOf(openAiConversation(request), caller);
      };
      return callModel(exchange, caller, 'chat', read, parts);
    }),
  ];
}
