import type { Conversation, Crossing } from '../dialect.ts';
import { longNumbersIn } from '../exact-json.ts';
import { waysFrom } from '../ways.ts';
import type { ChatRequest } from './chat-request.ts';
import type { ChatMessage } from './chat-schema.ts';
import { openAiClient } from './client.ts';
import { readDialogue } from './dialogue.ts';
import { readReply } from './reply.ts';
import { OpenAiPassThrough, openAiWords } from './stream.ts';
import { openAiUpstream } from './upstream.ts';
import { writeChat } from './upstream-request.ts';

/** An OpenAI client's request, and the ways it can be put to an upstream. */
export function openAiConversation(request: ChatRequest): Conversation {
  const { ask, includeUsage } = request;
  const options = { includeUsage, hidesReasoning: request.body.reasoning?.exclude === true };
  const same: Crossing = {
    write: (target) => writeChat(request, target),
    openStream: (identity) => new OpenAiPassThrough(identity, options),
    readReply: (text, identity) => readReply(text, identity, options),
  };
  const client = openAiClient(options);
  return {
    ask,
    words: openAiWords,
    ...waysFrom(client, openAiUpstream, same, () => readDialogue(request)),
    instruct: (text) => openAiConversation(instructed(request, text)),
    client,
    wording: () => wordingOf(request),
    temperature: request.body.temperature ?? null,
  };
}

/** How the answer is delivered decides nothing about it, but for what only one form can carry. */
function wordingOf({ body, source }: ChatRequest): unknown {
  const { stream, stream_options: _, usage: __, ...rest } = body;
  const isFormBound = body.logprobs === true || (body.n ?? 1) > 1;
  const longNumbers = source ? longNumbersIn(source.text) : [];
  return ['openai', rest, isFormBound ? stream === true : null, longNumbers];
}

/** Behind the instructions at the beginning, in front of what is said. */
function instructed(request: ChatRequest, text: string): ChatRequest {
  const { messages } = request.body;
  const isInstruction = ({ role }: ChatMessage) => role === 'system' || role === 'developer';
  const first = messages.findIndex((message) => !isInstruction(message));
  const at = first === -1 ? messages.length : first;
  const more: ChatMessage = { role: 'system', content: text };
  const body = { ...request.body, messages: messages.toSpliced(at, 0, more) };
  const ask = { ...request.ask, inputBytes: request.ask.inputBytes + Buffer.byteLength(text) };
  return { ...request, ask, body, source: null };
}
