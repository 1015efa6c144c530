import { itemsOf } from '../../core/json.ts';
import { ClientConversation } from '../conversation.ts';
import type { Conversation, ReplyIdentity, Target } from '../dialect.ts';
import type { ChatRequest } from './chat-request.ts';
import type { ChatMessage } from './chat-schema.ts';
import { type OpenAiClientOptions, openAiClient } from './client.ts';
import { openAiWords } from './client-stream.ts';
import { readDialogue } from './dialogue.ts';
import { knowsFunctions } from './functions.ts';
import { customNames, namesOf } from './newer-tools.ts';
import { OpenAiPassThrough } from './pass-through.ts';
import { readReply } from './pass-through-reply.ts';
import { passChat } from './pass-through-request.ts';
import { openAiUpstream } from './upstream.ts';

/** An OpenAI client's request, and the ways it can be put to an upstream. */
export function openAiConversation(request: ChatRequest): Conversation {
  return new OpenAiConversation(request);
}

class OpenAiConversation extends ClientConversation<ChatRequest> implements OpenAiClientOptions {
  protected override readonly own = openAiUpstream;
  override readonly words = openAiWords;
  readonly includeUsage: boolean;
  readonly hidesReasoning: boolean;
  readonly choices: number;
  readonly knowsFunctions: boolean;
  readonly customTools: ReadonlySet<string> | undefined;

  constructor(request: ChatRequest) {
    super(request);
    this.includeUsage = request.includeUsage;
    this.hidesReasoning = request.body.reasoning?.exclude === true;
    this.choices = request.ask.choices;
    this.knowsFunctions = knowsFunctions(request.body);
    this.customTools = customNames(request.body.tools);
  }

  get toolNames() {
    return namesOf(this.request.body.tools);
  }

  override get client() {
    return openAiClient(this);
  }

  override get isFormBound() {
    const { logprobs, n, modalities }: ChatRequest['body'] & { modalities?: unknown } =
      this.request.body;
    return logprobs === true || (n ?? 1) > 1 || itemsOf(modalities).includes('audio');
  }

  protected override readDialogue() {
    return readDialogue(this.request);
  }

  override instruct(text: string): Conversation {
    return new OpenAiConversation(this.instructed(text, withInstructions));
  }

  override wording() {
    const { stream: _, stream_options: __, usage: ___, ...rest } = this.request.body;
    return this.wordingOf('openai', rest);
  }

  override write(target: Target) {
    return passChat(this.request, target);
  }

  override relayStream(identity: ReplyIdentity) {
    return new OpenAiPassThrough(identity, this);
  }

  override relayReply(text: string, identity: ReplyIdentity) {
    return readReply(text, identity, this);
  }
}

/** Inserts `text` after the instructions at the beginning, before all other messages. */
function withInstructions(body: ChatRequest['body'], text: string): ChatRequest['body'] {
  const { messages } = body;
  const isInstruction = ({ role }: ChatMessage) => role === 'system' || role === 'developer';
  const first = messages.findIndex((message) => !isInstruction(message));
  const at = first === -1 ? messages.length : first;
  const more: ChatMessage = { role: 'system', content: text };
  return { ...body, messages: messages.toSpliced(at, 0, more) };
}
