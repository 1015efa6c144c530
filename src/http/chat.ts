import type { Caller } from '../core/caller.ts';
import type { Conversation } from '../dialects/dialect.ts';
import { readChatRequest } from '../dialects/openai/chat-request.ts';
import { openAiConversation } from '../dialects/openai/conversation.ts';
import { type Answer, answer, type Steps } from '../gateway.ts';
import { readJson } from './body.ts';
import type { Exchange } from './exchange.ts';
import type { Route } from './routes.ts';

export interface ChatParts {
  readonly bodyBytesMax: number;
  /** The steps of the story, with this answer's headers at hand for the limits to write into. */
  steps(headers: Record<string, string>): Steps;
}

export function chatRoutes(parts: ChatParts): Route[] {
  return [
    {
      method: 'POST',
      path: '/v1/chat/completions',
      access: 'routing',
      scope: 'chat',
      handle: async (exchange, caller) => {
        const read = () => readOpenAi(exchange, parts.bodyBytesMax);
        return respond(exchange, await ask(exchange, caller, read, parts));
      },
    },
  ];
}

async function readOpenAi(exchange: Exchange, bytesMax: number): Promise<Conversation> {
  const { value, ...source } = await readJson(exchange.request, bytesMax);
  const request = readChatRequest(value, source);
  // OpenRouter's clients never ask for usage and always expect it.
  const includeUsage = request.includeUsage || exchange.route.openRouterStyle;
  return openAiConversation({ ...request, includeUsage });
}

function ask(
  exchange: Exchange,
  caller: Caller,
  read: () => Promise<Conversation>,
  parts: ChatParts,
): Promise<Answer> {
  const call = {
    requestId: exchange.requestId,
    caller,
    client: exchange.request.signal,
    receivedAt: Date.now(),
    startedAt: performance.now(),
    trail: [],
    conversation: undefined,
    hold: undefined,
  };
  return answer(call, read, parts.steps(exchange.headers));
}

function respond(exchange: Exchange, answered: Answer): Response {
  if (typeof answered === 'string') {
    return new Response(answered, {
      headers: { 'content-type': 'application/json', ...exchange.headers },
    });
  }
  return new Response(answered, {
    headers: {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      // Proxies in front of us must not collect the words of a stream.
      'x-accel-buffering': 'no',
      ...exchange.headers,
    },
  });
}
