import { promptTextBytes } from '../../core/prompt.ts';
import type { ChatRequestInfo } from '../../core/request-info.ts';
import { charactersPerToken } from '../../core/usage.ts';
import type { ClientDialect, ClientRequest, ReplyIdentity, Target } from '../dialect.ts';
import { AbstractClientRequest } from '../engine.ts';
import { readPrompt } from './client/prompt.ts';
import { AnthropicReplyWriter } from './client/reply-writer.ts';
import type { MessagesRequest } from './client/request.ts';
import type { MessagesBody } from './client/schema.ts';
import { AnthropicStreamWriter, anthropicStreamFormat } from './client/stream-writer.ts';
import { tokensPerImageMax } from './count-tokens.ts';
import { readVersion, type VersionHeaders } from './hosts.ts';
import { readReply } from './passthrough/reply.ts';
import { passMessages } from './passthrough/request.ts';
import { AnthropicPassThrough } from './passthrough/stream.ts';
import { anthropicUpstream } from './upstream/reader.ts';

/** Creates an Anthropic client's request, which can be sent to any chat upstream. */
export function anthropicClientRequest(request: MessagesRequest, headers: Headers): ClientRequest {
  return new AnthropicClientRequest(request, readVersion(headers));
}

class AnthropicClientRequest extends AbstractClientRequest<MessagesRequest> {
  protected override readonly ownUpstream = anthropicUpstream;
  override readonly streamFormat = anthropicStreamFormat;
  readonly #version: VersionHeaders;

  constructor(request: MessagesRequest, version: VersionHeaders) {
    super(request);
    this.#version = version;
  }

  override get client() {
    return anthropicClient(this);
  }

  /**
   * Estimated from the translated text. If the upstream reports no usage, the charge is estimated
   * the same way.
   */
  get inputTokensEstimate(): number {
    return Math.ceil(promptTextBytes(this.toPrompt()) / charactersPerToken);
  }

  protected override readPrompt() {
    return readPrompt(this.parsed);
  }

  override withInstructions(text: string): ClientRequest {
    const request = this.appendInstructions(text, withInstructions);
    return new AnthropicClientRequest(request, this.#version);
  }

  override cacheKeyInput() {
    const { stream: _, ...rest } = this.parsed.body;
    return this.cacheKeyInputFor('messages', rest, this.#version);
  }

  override write(target: Target) {
    return passMessages(this.parsed, this.#version, target);
  }

  override transformStream(identity: ReplyIdentity) {
    return new AnthropicPassThrough(identity, estimateInput(this.request));
  }

  override transformReply(text: string, identity: ReplyIdentity) {
    return readReply(text, identity);
  }
}

/**
 * Estimates the input tokens of a request that isn't translated, from its text bytes plus the
 * maximum per image.
 */
function estimateInput({ inputBytes, images }: ChatRequestInfo): number {
  const imageBytes = images.reduce((sum, { url }) => sum + url.length, 0);
  const tokens = Math.ceil((inputBytes - imageBytes) / charactersPerToken);
  return Math.max(1, tokens + images.length * tokensPerImageMax);
}

/** Appends the gateway's instructions to the client's. */
function withInstructions(body: MessagesBody, text: string): MessagesBody {
  const { system } = body;
  const added = { type: 'text' as const, text };
  const original = typeof system === 'string' ? [{ ...added, text: system }] : (system ?? []);
  return { ...body, system: [...original, added] };
}

interface AnthropicClientOptions {
  /**
   * The estimated prompt size, which is reported at the start of a stream. Read only for streams.
   */
  readonly inputTokensEstimate: number;
}

/** Writes neutral answers for Anthropic clients. */
export function anthropicClient(options: AnthropicClientOptions): ClientDialect {
  return {
    writeStream: (identity) => new AnthropicStreamWriter(identity, options.inputTokensEstimate),
    writeReply: (identity) => new AnthropicReplyWriter(identity),
  };
}
