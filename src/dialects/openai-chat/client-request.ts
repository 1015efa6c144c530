import { itemsOf } from '../../core/json.ts';
import type { ClientRequest, ReplyIdentity, StreamFormat, Target } from '../dialect.ts';
import { AbstractClientRequest } from '../engine.ts';
import { readPrompt } from './client/prompt.ts';
import type { OpenAiClientOptions } from './client/reply-writer.ts';
import type { ChatRequest } from './client/request.ts';
import type { ChatMessage } from './client/schema.ts';
import { openAiClient, openAiStreamFormat } from './client/stream-writer.ts';
import { customNames, namesOf, usesLegacyFunctions } from './client/tool-formats.ts';
import { readReply } from './passthrough/reply.ts';
import { OpenAiPassThrough } from './passthrough/stream.ts';
import { openAiUpstream } from './upstream/reader.ts';
import { passChat } from './upstream/request.ts';

/** Returns an OpenAI client's request with its adapters to upstreams. */
export function openAiClientRequest(request: ChatRequest, usesTextCodes = false): ClientRequest {
  return new OpenAiClientRequest(request, usesTextCodes);
}

class OpenAiClientRequest
  extends AbstractClientRequest<ChatRequest>
  implements OpenAiClientOptions
{
  protected override readonly ownUpstream = openAiUpstream;
  override readonly streamFormat: StreamFormat;
  readonly usesTextCodes: boolean;
  readonly includeUsage: boolean;
  readonly hidesReasoning: boolean;
  readonly choices: number;
  readonly usesLegacyFunctions: boolean;
  readonly customTools: ReadonlySet<string> | undefined;

  constructor(request: ChatRequest, usesTextCodes: boolean) {
    super(request);
    this.usesTextCodes = usesTextCodes;
    this.streamFormat = openAiStreamFormat(this);
    this.includeUsage = request.includeUsage;
    this.hidesReasoning = request.body.reasoning?.exclude === true;
    this.choices = request.request.choices;
    this.usesLegacyFunctions = usesLegacyFunctions(request.body);
    this.customTools = customNames(request.body.tools);
  }

  get toolNames() {
    return namesOf(this.parsed.body.tools);
  }

  override get client() {
    return openAiClient(this);
  }

  override get isStreamModeFixed() {
    const { logprobs, n, modalities }: ChatRequest['body'] & { modalities?: unknown } =
      this.parsed.body;
    return logprobs === true || (n ?? 1) > 1 || itemsOf(modalities).includes('audio');
  }

  protected override readPrompt() {
    return readPrompt(this.parsed);
  }

  override withInstructions(text: string): ClientRequest {
    const request = this.appendInstructions(text, withInstructions);
    return new OpenAiClientRequest(request, this.usesTextCodes);
  }

  override cacheKeyInput() {
    const { stream: _, stream_options: __, usage: ___, ...rest } = this.parsed.body;
    return this.cacheKeyInputFor('openai', rest);
  }

  override write(target: Target) {
    return passChat(this.parsed, target);
  }

  override transformStream(identity: ReplyIdentity) {
    return new OpenAiPassThrough(identity, this);
  }

  override transformReply(text: string, identity: ReplyIdentity) {
    return readReply(text, identity, this);
  }
}

/** Inserts `text` after the leading instructions and before all other messages. */
function withInstructions(body: ChatRequest['body'], text: string): ChatRequest['body'] {
  const { messages } = body;
  const isInstruction = ({ role }: ChatMessage) => role === 'system' || role === 'developer';
  const first = messages.findIndex((message) => !isInstruction(message));
  const at = first === -1 ? messages.length : first;
  const added: ChatMessage = { role: 'system', content: text };
  return { ...body, messages: messages.toSpliced(at, 0, added) };
}
