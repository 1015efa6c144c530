import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Caller } from '../../core/caller.ts';
import { anthropicConversation } from '../../dialects/anthropic/conversation.ts';
import { anthropicCount } from '../../dialects/anthropic/count.ts';
import { countable } from '../../dialects/anthropic/countable.ts';
import {
  readCountRequest,
  readMessagesRequest,
} from '../../dialects/anthropic/messages-request.ts';
import type { CountBody } from '../../dialects/anthropic/messages-schema.ts';
import type { Count, TokenCount } from '../../dialects/count.ts';
import type { Admission } from '../../limits/admit.ts';
import { type Posted, readJson } from '../body/body.ts';
import { messagesDocs } from '../openapi/messages.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';
import type { ChatParts } from './chat.ts';
import { callModel } from './model-call.ts';
import { estimateTokens } from './token-estimate.ts';

export interface MessagesParts extends ChatParts {
  /**
   * Counting tokens takes nothing of the key's quota, so the rate is only told; but it takes a
   * place among the running requests.
   */
  readonly admission: Pick<Admission, 'tellRate' | 'enter'>;
  /** The count of the provider that would answer; undefined when none tells one. 400 403 */
  countUpstream(count: Count, caller: Caller, client: AbortSignal): Promise<TokenCount | undefined>;
}

const routing = routesFor({ access: 'routing', scope: 'chat', errorShape: 'messages' });

/** Anthropic's endpoints, for every model. */
export function messagesRoutes(parts: MessagesParts): Route[] {
  return [
    routing.post('/v1/messages', messagesDocs.create, (exchange, caller) => {
      const read = async (posted: Posted) => {
        const body = await readJson(posted, parts.bodyBytesMax);
        const request = readMessagesRequest(body.value, body);
        const { headers } = exchange.request;
        return parts.errandOf(anthropicConversation(request, headers), caller);
      };
      return callModel(exchange, caller, 'chat', read, parts);
    }),
    routing.post('/v1/messages/count_tokens', messagesDocs.count, async (exchange, caller) => {
      parts.admission.tellRate(caller, exchange.headers);
      const leave = await parts.admission.enter(caller);
      const share = parts.bodyRoom.share(caller.tenantId);
      const { request } = exchange;
      const posted = { request, modelNamed: '', claimRoom: (bytes: number) => share.claim(bytes) };
      try {
        return json(exchange, await countTokens(posted, caller, parts));
      } finally {
        share.giveBack();
        leave();
      }
    }),
  ];
}

async function countTokens(
  posted: Posted,
  caller: Caller,
  { bodyBytesMax, countUpstream }: MessagesParts,
): Promise<TokenCount> {
  const { request } = posted;
  const body = await readJson(posted, bodyBytesMax);
  const asked = readCountRequest(body.value, body);
  const count = anthropicCount(asked, request.headers);
  const counted = await countUpstream(count, caller, request.signal);
  return counted ?? { input_tokens: await estimate(asked.body) };
}

/** Takes some five milliseconds to count: then other requests have their turn. */
const charactersAtOnce = 512 * 1024;

async function estimate(body: CountBody): Promise<number> {
  let tokens = 0;
  let counted = 0;
  for (const part of countable(body)) {
    if (typeof part !== 'string') {
      tokens += part.tokens;
      continue;
    }
    for (let at = 0; at < part.length; at += charactersAtOnce) {
      const piece = part.slice(at, at + charactersAtOnce);
      tokens += estimateTokens(piece);
      counted += piece.length;
      if (counted < charactersAtOnce) continue;
      counted = 0;
      await nextTurn();
    }
  }
  return tokens;
}
