import type { Caller } from '../core/caller.ts';
import type { Conversation } from '../dialects/dialect.ts';
import { readChatRequest } from '../dialects/openai/chat-request.ts';
import { openAiConversation } from '../dialects/openai/conversation.ts';
import type { Errand } from '../gateway.ts';
import type { Exchange } from './exchange.ts';
import { chatDocs } from './openapi-chat.ts';
import { type RoutedParts, readCall, route } from './routed.ts';
import type { Route } from './routes.ts';

export interface ChatParts extends RoutedParts {
  /** What a conversation becomes with everything it asks for. 400 */
  errandOf(conversation: Conversation, caller: Caller): Errand | Promise<Errand>;
}

export function chatRoutes(parts: ChatParts): Route[] {
  return [
    {
      method: 'POST',
      path: '/v1/chat/completions',
      doc: chatDocs.complete,
      access: 'routing',
      scope: 'chat',
      handle(exchange, caller) {
        const read = async () =>
          parts.errandOf(await readOpenAi(exchange, parts.bodyBytesMax), caller);
        return route(exchange, caller, 'chat', read, parts);
      },
    },
  ];
}

async function readOpenAi(exchange: Exchange, bytesMax: number): Promise<Conversation> {
  const { value, ...source } = await readCall(exchange, bytesMax);
  const request = readChatRequest(value, source);
  // OpenRouter's clients never ask for usage and always expect it.
  const includeUsage = request.includeUsage || exchange.route.openRouterStyle;
  return openAiConversation({ ...request, includeUsage });
}
