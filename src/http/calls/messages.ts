import type { Caller } from '../../core/caller.ts';
import { estimateTokens } from '../../core/token-estimate.ts';
import { anthropicConversation } from '../../dialects/anthropic/conversation.ts';
import { anthropicCount } from '../../dialects/anthropic/count.ts';
import { countable } from '../../dialects/anthropic/countable.ts';
import {
  readCountRequest,
  readMessagesRequest,
} from '../../dialects/anthropic/messages-request.ts';
import type { CountBody } from '../../dialects/anthropic/messages-schema.ts';
import type { Count } from '../../dialects/count.ts';
import type { Conversation } from '../../dialects/dialect.ts';
import type { Admission } from '../../limits/admit.ts';
import { readJson } from '../body/body.ts';
import type { Exchange } from '../exchange.ts';
import { messagesDocs } from '../openapi/messages.ts';
import { json } from '../reply.ts';
import type { Route } from '../routes.ts';
import type { ChatParts } from './chat.ts';
import { callModel } from './model-call.ts';

export interface MessagesParts extends ChatParts {
  /** Tells where a key stands: counting takes nothing of its requests. But it takes a place. */
  readonly admission: Pick<Admission, 'tellRate' | 'enter'>;
  /** What the provider counts that would answer; undefined when none of them says. 400 403 */
  countUpstream(count: Count, caller: Caller, client: AbortSignal): Promise<number | undefined>;
}

/** Anthropic's endpoints, for every model. */
export function messagesRoutes(parts: MessagesParts): Route[] {
  return [
    {
      method: 'POST',
      path: '/v1/messages',
      doc: messagesDocs.create,
      errorShape: 'messages',
      access: 'routing',
      scope: 'chat',
      handle(exchange, caller) {
        const read = async () =>
          parts.errandOf(await readMessages(exchange, parts.bodyBytesMax), caller);
        return callModel(exchange, caller, 'chat', read, parts);
      },
    },
    {
      method: 'POST',
      path: '/v1/messages/count_tokens',
      doc: messagesDocs.count,
      errorShape: 'messages',
      access: 'routing',
      scope: 'chat',
      async handle(exchange, caller) {
        parts.admission.tellRate(caller, exchange.headers);
        const leave = await parts.admission.enter(caller);
        try {
          return json(exchange, { input_tokens: await countTokens(exchange, caller, parts) });
        } finally {
          leave();
        }
      },
    },
  ];
}

async function readMessages(exchange: Exchange, bytesMax: number): Promise<Conversation> {
  const body = await readJson(exchange, bytesMax);
  return anthropicConversation(readMessagesRequest(body.value, body), exchange.request.headers);
}

async function countTokens(
  exchange: Exchange,
  caller: Caller,
  { bodyBytesMax, countUpstream }: MessagesParts,
): Promise<number> {
  const { request } = exchange;
  const body = await readJson(exchange, bodyBytesMax);
  const asked = readCountRequest(body.value, body);
  const count = anthropicCount(asked, request.headers);
  const counted = await countUpstream(count, caller, request.signal);
  return counted ?? estimate(asked.body);
}

/** Some five milliseconds of counting: then everybody else has their turn. */
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
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  return tokens;
}
