import type { DialectName } from '../../config/provider-schema.ts';
import type { ChatAsk } from '../../core/chat.ts';
import type { Dialogue } from '../../core/dialogue.ts';
import { instructed } from '../ask/instruct.ts';
import { wordingOf } from '../ask/wording.ts';
import type {
  ClientDialect,
  Conversation,
  Crossing,
  ReplyIdentity,
  ReplyRelay,
  StreamRelay,
  Target,
  UpstreamFailure,
  UpstreamRequest,
} from '../dialect.ts';
import { translate } from '../translation.ts';
import { wayTo } from '../ways.ts';
import type { ChatRequest } from './chat-request.ts';
import type { ChatMessage } from './chat-schema.ts';
import { type OpenAiClientOptions, openAiClient } from './client.ts';
import { openAiWords } from './client-stream.ts';
import { readDialogue } from './dialogue.ts';
import { OpenAiPassThrough } from './pass-through.ts';
import { readReply } from './pass-through-reply.ts';
import { writeChat } from './pass-through-request.ts';
import { openAiUpstream } from './upstream.ts';

/** An OpenAI client's request, and the ways it can be put to an upstream. */
export function openAiConversation(request: ChatRequest): Conversation {
  return new OpenAiConversation(request);
}

/** It is also its own way to an upstream that speaks as the client does. */
class OpenAiConversation implements Conversation, Crossing, OpenAiClientOptions {
  readonly ask: ChatAsk;
  readonly words = openAiWords;
  readonly temperature: number | null;
  readonly includeUsage: boolean;
  readonly hidesReasoning: boolean;
  readonly #request: ChatRequest;
  #dialogue: Dialogue | undefined;

  constructor(request: ChatRequest) {
    this.ask = request.ask;
    this.temperature = request.body.temperature ?? null;
    this.includeUsage = request.includeUsage;
    this.hidesReasoning = request.body.reasoning?.exclude === true;
    this.#request = request;
  }

  crossTo(dialect: DialectName): Crossing | undefined {
    return wayTo(dialect, openAiUpstream, this, this);
  }

  dialogue(): Dialogue {
    this.#dialogue ??= readDialogue(this.#request);
    return this.#dialogue;
  }

  instruct(text: string): Conversation {
    return new OpenAiConversation(instructed(this.#request, text, withInstructions));
  }

  get client(): ClientDialect {
    return openAiClient(this);
  }

  wording(): unknown {
    return wording(this.#request);
  }

  write(target: Target): UpstreamRequest {
    return writeChat(this.#request, target);
  }

  openStream(identity: ReplyIdentity): StreamRelay {
    return new OpenAiPassThrough(identity, this);
  }

  readReply(text: string, identity: ReplyIdentity): ReplyRelay | UpstreamFailure {
    return readReply(text, identity, this);
  }

  streamReply(text: string, identity: ReplyIdentity): ReturnType<Crossing['streamReply']> {
    if (isFormBound(this.#request)) return undefined;
    return translate(this.dialogue(), this.client, openAiUpstream).streamReply(text, identity);
  }
}

/** Whether an answer in one form cannot be told in the other without a loss. */
function isFormBound({ body }: ChatRequest): boolean {
  return body.logprobs === true || (body.n ?? 1) > 1;
}

/** How the answer is delivered decides nothing about it, but for what only one form can carry. */
function wording(request: ChatRequest): unknown {
  const { body, source } = request;
  const { stream, stream_options: _, usage: __, ...rest } = body;
  const form = isFormBound(request) ? stream === true : null;
  return wordingOf('openai', rest, form, source);
}

/** Behind the instructions at the beginning, in front of what is said. */
function withInstructions(body: ChatRequest['body'], text: string): ChatRequest['body'] {
  const { messages } = body;
  const isInstruction = ({ role }: ChatMessage) => role === 'system' || role === 'developer';
  const first = messages.findIndex((message) => !isInstruction(message));
  const at = first === -1 ? messages.length : first;
  const more: ChatMessage = { role: 'system', content: text };
  return { ...body, messages: messages.toSpliced(at, 0, more) };
}
