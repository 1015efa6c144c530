/**
 * A chat request in neutral form. Client dialects parse into it and provider dialects write from
 * it, so N clients and M providers need N + M translators. Not used if both sides speak the same
 * dialect. In that case, the request is forwarded.
 */
export interface Prompt {
  /** System messages stay at their position. Those at the start are the instructions. */
  readonly turns: readonly Turn[];
  readonly tools: readonly Tool[];
  /** Null means that the client didn't set it. */
  readonly toolChoice: ToolChoice | null;
  readonly parallelTools: boolean | null;
  readonly outputTokensMax: number | null;
  readonly stop: readonly string[];
  readonly json: JsonFormat | null;
  readonly reasoning: ReasoningOptions | null;
  readonly sampling: Sampling;
  /** The end user's ID, passed on to the provider. */
  readonly user: string | null;
  /** How detailed the answer should be. Only OpenAI's models support it. */
  readonly verbosity?: string | undefined;
  /** OpenAI's `prompt_cache_key`, scoped to the tenant. */
  readonly promptCacheKey?: string | undefined;
  /** Set if the entire prompt should be cached. */
  readonly cacheControl?: CacheControl | undefined;
  readonly stream: boolean;
  /** The number of answers (`n`). */
  readonly choices: number;
  /** Fields that exist only in the client's dialect. Reported as dropped in other dialects. */
  readonly unsupported: readonly string[];
  /** A message type that the neutral form can't express. */
  readonly unsupportedPart?: UnsupportedPart | undefined;
}

export interface UnsupportedPart {
  readonly param: string;
  readonly type: string;
}

/** Sampling parameters. Some models reject some of them. */
export interface Sampling {
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  readonly topK?: number | undefined;
  readonly seed?: number | undefined;
  readonly presencePenalty?: number | undefined;
  readonly frequencyPenalty?: number | undefined;
  readonly logprobs?: boolean | undefined;
  readonly topLogprobs?: number | undefined;
  readonly logitBias?: Readonly<Record<string, number>> | undefined;
}

export type ToolChoice = 'auto' | 'none' | 'required' | { readonly name: string };

export interface JsonFormat {
  /** Null allows any JSON object. */
  readonly schema: Readonly<Record<string, unknown>> | null;
  readonly name: string;
  readonly description?: string | undefined;
  readonly strict?: boolean | undefined;
}

export const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
export type Effort = (typeof efforts)[number];

export interface ReasoningOptions {
  /** Null means the model's default. `none` turns reasoning off if the model can. */
  readonly effort: Effort | null;
  readonly budgetTokens: number | null;
  /** True for adaptive thinking of Anthropic's newer models. */
  readonly isAdaptive?: boolean;
  /** False if the client doesn't want the reasoning text. */
  readonly visible: boolean;
}

export interface Tool {
  readonly name: string;
  readonly description?: string | undefined;
  /** JSON Schema of the arguments, or null if there are none. */
  readonly parameters: Readonly<Record<string, unknown>> | null;
  readonly strict?: boolean | undefined;
  readonly cacheControl?: CacheControl | undefined;
}

/** A prompt cache marker as the client wrote it, in Anthropic's or OpenAI's format. */
export type CacheControl = Readonly<Record<string, unknown>>;

export type Turn =
  | { readonly role: 'system'; readonly parts: readonly TextPart[] }
  /** Tool results come first, then the user's content. */
  | { readonly role: 'user'; readonly parts: readonly UserPart[] }
  | { readonly role: 'assistant'; readonly parts: readonly AssistantPart[] };

export type UserPart = TextPart | ImagePart | DocumentPart | AudioPart | ToolResultPart;
export type AssistantPart = TextPart | ReasoningPart | ToolCallPart | RefusalPart;

export interface Cacheable {
  readonly cacheControl?: CacheControl | undefined;
}

export interface TextPart extends Cacheable {
  readonly kind: 'text';
  readonly text: string;
}

export interface ImagePart extends Cacheable {
  readonly kind: 'image';
  /** An http(s) or `data:` URL. */
  readonly url: string;
  readonly detail?: string | undefined;
}

export interface DocumentPart extends Cacheable {
  readonly kind: 'document';
  readonly source:
    | { readonly url: string }
    | { readonly text: string }
    | { readonly fileId: string };
  readonly name?: string | undefined;
}

interface AudioPart {
  readonly kind: 'audio';
  /** Base64. */
  readonly data: string;
  /** `wav`, `mp3`. */
  readonly format: string;
}

export interface ToolResultPart extends Cacheable {
  readonly kind: 'tool_result';
  readonly callId: string;
  readonly parts: readonly (TextPart | ImagePart | DocumentPart)[];
  readonly isError: boolean;
}

export interface ToolCallPart extends Cacheable {
  readonly kind: 'tool_call';
  readonly id: string;
  readonly name: string;
  /** JSON text, as the model wrote it. */
  readonly arguments: string;
}

/** Reasoning of an earlier turn. If it comes right before a tool call, it belongs to that call. */
export interface ReasoningPart {
  readonly kind: 'reasoning';
  /** Can be empty if there is a signature. */
  readonly text: string;
  /** The provider's signature. signature.ts adds a prefix that names the provider. */
  readonly signature?: string | undefined;
  /** Complete encrypted reasoning instead of text, marked in the same way. */
  readonly redacted?: string | undefined;
}

interface RefusalPart {
  readonly kind: 'refusal';
  readonly text: string;
}

/**
 * Estimates a prompt's length as the bytes of its text and tool definitions, without JSON syntax.
 * Used only if no provider has counted the tokens. At least 1.
 */
export function promptTextBytes({ turns, tools, json }: Prompt): number {
  let bytes = json?.schema ? Buffer.byteLength(JSON.stringify(json.schema)) : 0;
  for (const { name, description = '', parameters } of tools) {
    bytes += Buffer.byteLength(name) + Buffer.byteLength(description);
    if (parameters) bytes += Buffer.byteLength(JSON.stringify(parameters));
  }
  for (const { parts } of turns) for (const part of parts) bytes += partBytes(part);
  return Math.max(1, bytes);
}

type Part = Turn['parts'][number];

/** Base64 characters per byte of text: a PDF page is about 50 KB of base64 and 2,000 tokens. */
const fileCharactersPerByte = 8;
/**
 * A second of audio is at least 10 tokens, and in base64 about 20 KB as MP3 or 64 KB as samples.
 */
const audioCharactersPerByte = 500;
/** An image's tokens don't depend on its size in bytes. Every provider counts at least 85. */
const imageTextBytes = 340;

function partBytes(part: Part): number {
  switch (part.kind) {
    case 'text':
    case 'refusal':
    case 'reasoning':
      return Buffer.byteLength(part.text);
    case 'tool_call':
      return Buffer.byteLength(part.name) + Buffer.byteLength(part.arguments);
    case 'tool_result':
      return part.parts.reduce((sum, inner) => sum + partBytes(inner), 0);
    case 'document':
      if ('text' in part.source) return Buffer.byteLength(part.source.text);
      if (!('url' in part.source && /^data:/i.test(part.source.url))) return 0;
      return Math.ceil(part.source.url.length / fileCharactersPerByte);
    case 'image':
      return imageTextBytes;
    case 'audio':
      return Math.ceil(part.data.length / audioCharactersPerByte);
  }
}
