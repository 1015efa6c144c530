import type { DialectName } from '../../config/provider-schema.ts';
import type { Conversation, Crossing } from '../dialect.ts';
import type { ChatRequest } from './chat-request.ts';
import { readReply } from './reply.ts';
import { OpenAiPassThrough, openAiWords } from './stream.ts';
import { writeChat } from './upstream-request.ts';

/** An OpenAI client's request, and the ways it can be put to an upstream. */
export function openAiConversation(request: ChatRequest): Conversation {
  const same: Crossing = {
    write: (target) => writeChat(request, target),
    openStream: (identity) =>
      new OpenAiPassThrough(identity, { includeUsage: request.includeUsage }),
    readReply,
  };
  const crossings: Partial<Record<DialectName, Crossing>> = {
    openai: same,
    siliconflow: same,
    // Models that want the Responses endpoint for tools while they reason still chat here.
    'openai-responses': same,
  };
  return { ask: request.ask, words: openAiWords, crossTo: (dialect) => crossings[dialect] };
}
