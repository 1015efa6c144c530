import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Operation } from '../../call.ts';
import {
  chatDocs,
  messagesDocs,
  responsesDocs,
  type TokenCountObject,
} from '../../contract/chat.ts';
import type { Caller } from '../../core/caller.ts';
import { readCountRequest, readMessagesRequest } from '../../dialects/anthropic/client/request.ts';
import type { CountBody } from '../../dialects/anthropic/client/schema.ts';
import { anthropicClientRequest } from '../../dialects/anthropic/client-request.ts';
import { anthropicCount, countable } from '../../dialects/anthropic/count-tokens.ts';
import type { ClientRequest, TokenCount, TokenCountRequest } from '../../dialects/dialect.ts';
import { readChatRequest } from '../../dialects/openai-chat/client/request.ts';
import { openAiClientRequest } from '../../dialects/openai-chat/client-request.ts';
import { readResponsesRequest } from '../../dialects/responses/client/request.ts';
import { responsesClientRequest } from '../../dialects/responses/client-request.ts';
import type { Admission } from '../../limits/admission.ts';
import type { RequestedBy } from '../../route/requested-models.ts';
import { type IncomingRequest, readJson } from '../body/body.ts';
import { json } from '../reply.ts';
import { type Exchange, type Route, routesFor } from '../routes.ts';
import { callModel, type ModelCallDeps } from './model-call.ts';
import { estimateTokens } from './token-estimate.ts';

export interface ChatDeps extends ModelCallDeps {
  /** True if `error.code` of a chat completion is the error's name instead of the HTTP status. */
  readonly usesTextCodes: boolean;
  /** Builds the operation of a chat request. Throws 400. */
  operationOf(clientRequest: ClientRequest, caller: Caller): Operation | Promise<Operation>;
}

const routing = routesFor({ access: 'routing', scope: 'chat' });

/** Reads the body of a request as an operation. Throws 400, 403, 413. */
export type ReadOperation<Deps> = (
  incoming: IncomingRequest,
  caller: Caller,
  deps: Deps,
  exchange: Pick<Exchange, 'openRouterStyle'>,
) => Promise<Operation>;

export const readChat: ReadOperation<ChatDeps> = async (incoming, caller, deps, exchange) => {
  const body = await readJson(incoming, deps.bodyBytesMax);
  // OpenRouter's clients expect usage in streams without requesting it.
  const { openRouterStyle } = exchange;
  const request = readChatRequest(body.value, body, openRouterStyle, caller.tenantId);
  return deps.operationOf(openAiClientRequest(request, deps.usesTextCodes), caller);
};

export function chatRoutes(deps: ChatDeps): Route[] {
  const errorShape = deps.usesTextCodes ? 'plain' : 'chat';
  const routing = routesFor({ access: 'routing', scope: 'chat', errorShape });
  return [
    routing.post('/v1/chat/completions', chatDocs.complete, (exchange, caller) =>
      callModel(exchange, caller, 'chat', (call) => readChat(call, caller, deps, exchange), deps),
    ),
  ];
}

export const readResponses: ReadOperation<ChatDeps> = async (incoming, caller, deps) => {
  const body = await readJson(incoming, deps.bodyBytesMax);
  const request = readResponsesRequest(body.value, body, caller.tenantId);
  return deps.operationOf(responsesClientRequest(request), caller);
};

/** OpenAI's Responses API, for every model. Responses aren't stored, so none can be fetched. */
export function responsesRoutes(deps: ChatDeps): Route[] {
  return [
    routing.post('/v1/responses', responsesDocs.create, (exchange, caller) => {
      const read = (call: IncomingRequest) => readResponses(call, caller, deps, exchange);
      return callModel(exchange, caller, 'chat', read, deps);
    }),
  ];
}

export interface MessagesDeps extends ChatDeps {
  /** A token count doesn't count toward the key's rate limit, but it uses a concurrency slot. */
  readonly admission: Pick<Admission, 'writeRateHeaders' | 'acquire'>;
  /** Has the provider count the tokens. Returns undefined if it can't. Throws 400, 403. */
  countUpstream(
    count: TokenCountRequest,
    requestedBy: RequestedBy,
    clientSignal: AbortSignal,
  ): Promise<TokenCount | undefined>;
}

export const readMessages: ReadOperation<ChatDeps> = async (incoming, caller, deps) => {
  const body = await readJson(incoming, deps.bodyBytesMax);
  const request = readMessagesRequest(body.value, body);
  const { headers } = incoming.request;
  return deps.operationOf(anthropicClientRequest(request, headers), caller);
};

const messagesRouting = routesFor({ access: 'routing', scope: 'chat', errorShape: 'messages' });

/** Anthropic's Messages API, for every model. */
export function messagesRoutes(deps: MessagesDeps): Route[] {
  return [
    messagesRouting.post('/v1/messages', messagesDocs.create, (exchange, caller) => {
      const read = (call: IncomingRequest) => readMessages(call, caller, deps, exchange);
      return callModel(exchange, caller, 'chat', read, deps);
    }),
    messagesRouting.post(
      '/v1/messages/count_tokens',
      messagesDocs.count,
      async (exchange, caller) => {
        deps.admission.writeRateHeaders(caller, exchange.headers);
        const releaseSlot = await deps.admission.acquire(caller);
        const reservation = deps.bodyMemoryBudget.openReservation(caller.tenantId);
        const { request } = exchange;
        const incoming = {
          request,
          requestedModel: '',
          reserveMemory: (bytes: number) => reservation.reserve(bytes),
        };
        try {
          return json(exchange, await countTokens(incoming, exchange, caller, deps));
        } finally {
          reservation.release();
          releaseSlot();
        }
      },
    ),
  ];
}

async function countTokens(
  incoming: IncomingRequest,
  { requestId }: Exchange,
  caller: Caller,
  { bodyBytesMax, countUpstream }: MessagesDeps,
): Promise<TokenCountObject> {
  const { request } = incoming;
  const body = await readJson(incoming, bodyBytesMax);
  const countRequest = readCountRequest(body.value, body);
  const count = anthropicCount(countRequest, request.headers);
  const { headers } = request;
  const requestedBy: RequestedBy = {
    ...{ caller, requestId, replayOptions: { idempotencyKey: headers.get('idempotency-key') } },
    clientHeader: (name) => headers.get(name),
  };
  const counted = await countUpstream(count, requestedBy, request.signal);
  return counted ?? { input_tokens: await estimate(countRequest.body) };
}

/** Estimating this many characters takes about 5 ms. After that, other requests get a turn. */
const charactersPerTurn = 512 * 1024;

async function estimate(body: CountBody): Promise<number> {
  let tokens = 0;
  let counted = 0;
  for (const part of countable(body)) {
    if (typeof part !== 'string') {
      tokens += part.tokens;
      continue;
    }
    for (let offset = 0; offset < part.length; offset += charactersPerTurn) {
      const chunk = part.slice(offset, offset + charactersPerTurn);
      tokens += estimateTokens(chunk);
      counted += chunk.length;
      if (counted < charactersPerTurn) continue;
      counted = 0;
      await nextTurn();
    }
  }
  return tokens;
}
