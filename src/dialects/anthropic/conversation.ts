import type { ChatAsk } from '../../core/ask.ts';
import { charactersPerToken } from '../../core/usage.ts';
import { wordBytes } from '../../core/word-bytes.ts';
import { ClientConversation } from '../conversation.ts';
import type { Conversation, ReplyIdentity, Target } from '../dialect.ts';
import { anthropicClient } from './client.ts';
import { anthropicWords } from './client-stream.ts';
import { tokensPerImageMax } from './countable.ts';
import { readDialogue } from './dialogue.ts';
import { readVersion, type VersionHeaders } from './hosts.ts';
import type { MessagesRequest } from './messages-request.ts';
import type { MessagesBody } from './messages-schema.ts';
import { AnthropicPassThrough } from './pass-through.ts';
import { readReply } from './pass-through-reply.ts';
import { passMessages } from './pass-through-request.ts';
import { anthropicUpstream } from './upstream.ts';

/** An Anthropic client's request, and the ways it can be put to an upstream. */
export function anthropicConversation(request: MessagesRequest, headers: Headers): Conversation {
  return new AnthropicConversation(request, readVersion(headers));
}

class AnthropicConversation extends ClientConversation<MessagesRequest> {
  protected override readonly own = anthropicUpstream;
  override readonly words = anthropicWords;
  readonly #version: VersionHeaders;

  constructor(request: MessagesRequest, version: VersionHeaders) {
    super(request);
    this.#version = version;
  }

  override get client() {
    return anthropicClient(this);
  }

  /** Estimated from the translated words, as is the bill when the upstream counts nothing. */
  get inputTokensEstimate(): number {
    return Math.ceil(wordBytes(this.dialogue()) / charactersPerToken);
  }

  protected override readDialogue() {
    return readDialogue(this.request);
  }

  override instruct(text: string): Conversation {
    const request = this.instructed(text, withInstructions);
    return new AnthropicConversation(request, this.#version);
  }

  override wording() {
    const { stream: _, ...rest } = this.request.body;
    return this.wordingOf('messages', rest, this.#version);
  }

  override write(target: Target) {
    return passMessages(this.request, this.#version, target);
  }

  override relayStream(identity: ReplyIdentity) {
    return new AnthropicPassThrough(identity, estimateInput(this.ask));
  }

  override relayReply(text: string, identity: ReplyIdentity) {
    return readReply(text, identity);
  }
}

/** For a request that is not translated: its bytes without pictures, and the most per picture. */
function estimateInput({ inputBytes, images }: ChatAsk): number {
  const pictures = images.reduce((sum, { url }) => sum + url.length, 0);
  const tokens = Math.ceil((inputBytes - pictures) / charactersPerToken);
  return Math.max(1, tokens + images.length * tokensPerImageMax);
}

/** Puts our instructions after the client's own. */
function withInstructions(body: MessagesBody, text: string): MessagesBody {
  const { system } = body;
  const more = { type: 'text' as const, text };
  const before = typeof system === 'string' ? [{ ...more, text: system }] : (system ?? []);
  return { ...body, system: [...before, more] };
}
