import type { ChatAsk } from '../../core/chat.ts';
import { instructed } from '../ask/instruct.ts';
import { wordingOf } from '../ask/wording.ts';
import type { Conversation, Crossing } from '../dialect.ts';
import { translate } from '../translation.ts';
import { waysFrom } from '../ways.ts';
import { anthropicClient } from './client.ts';
import { anthropicWords } from './client-stream.ts';
import { readDialogue } from './dialogue.ts';
import type { MessagesRequest } from './messages-request.ts';
import type { MessagesBody } from './messages-schema.ts';
import { AnthropicPassThrough } from './pass-through.ts';
import { readReply } from './pass-through-reply.ts';
import { passMessages, readManners } from './pass-through-request.ts';
import { anthropicUpstream } from './upstream.ts';

/** An Anthropic client's request, and the ways it can be put to an upstream. */
export function anthropicConversation(request: MessagesRequest, headers: Headers): Conversation {
  const { ask } = request;
  const manners = readManners(headers);
  const inputTokensEstimate = estimateInput(ask);
  const client = anthropicClient({ inputTokensEstimate });
  const read = () => readDialogue(request);
  const same: Crossing = {
    write: (target) => passMessages(request, manners, target),
    openStream: (identity) => new AnthropicPassThrough(identity, inputTokensEstimate),
    readReply,
    streamReply: (text, identity) =>
      translate(read(), client, anthropicUpstream).streamReply(text, identity),
  };
  return {
    ask,
    words: anthropicWords,
    ...waysFrom(client, anthropicUpstream, same, read),
    instruct: (text) => anthropicConversation(instructed(request, text, withInstructions), headers),
    client,
    wording() {
      // How the answer is delivered decides nothing about it.
      const { stream: _, ...rest } = request.body;
      return wordingOf('messages', rest, manners, request.source);
    },
    temperature: request.body.temperature ?? null,
  };
}

/** Four bytes a token and what a picture costs at most: near enough for a display. */
function estimateInput({ inputBytes, images }: ChatAsk): number {
  const pictures = images.reduce((sum, { url }) => sum + url.length, 0);
  return Math.max(1, Math.ceil((inputBytes - pictures) / 4) + images.length * 1_600);
}

/** Behind the client's own instructions. */
function withInstructions(body: MessagesBody, text: string): MessagesBody {
  const { system } = body;
  const more = { type: 'text' as const, text };
  const before = typeof system === 'string' ? [{ ...more, text: system }] : (system ?? []);
  return { ...body, system: [...before, more] };
}
