/**
 * A chat request in our own words. A client's dialect is read into it and an upstream's is written
 * from it, so that N clients and M upstreams need N + M translators. It is made only when the two
 * sides speak differently; the same dialect on both sides passes text through.
 */
export interface Prompt {
  /** System texts stand where the client put them; those at the beginning are the instructions. */
  readonly turns: readonly Turn[];
  readonly tools: readonly Tool[];
  /** Null: the client did not say. */
  readonly toolChoice: ToolChoice | null;
  readonly parallelTools: boolean | null;
  readonly outputTokensMax: number | null;
  readonly stop: readonly string[];
  readonly json: JsonFormat | null;
  readonly reasoning: ReasoningOptions | null;
  readonly sampling: Sampling;
  /** Names the end user to the provider. */
  readonly user: string | null;
  /** How much the model is to say: a word that only OpenAI's models have learned. */
  readonly verbosity?: string | undefined;
  /** The name by which OpenAI finds the prompt in its cache; no other tenant can have the same. */
  readonly promptCacheKey?: string | undefined;
  /** The whole prompt is to be cached, as far as it goes. */
  readonly cacheControl?: CacheControl | undefined;
  readonly stream: boolean;
  /** How many answers are wanted side by side. */
  readonly choices: number;
  /** Fields that only the client's own dialect knows: told as dropped when it is left. */
  readonly foreign: readonly string[];
  /** A message of which a dialogue can say nothing, named by the part that it consists of. */
  readonly unsupportedPart?: UnsupportedPart | undefined;
}

export interface UnsupportedPart {
  readonly param: string;
  readonly type: string;
}

/** All of it optional, and refused by some models: each absent one is undefined. */
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
  /** Null: any JSON object will do. */
  readonly schema: Readonly<Record<string, unknown>> | null;
  readonly name: string;
  readonly description?: string | undefined;
  readonly strict?: boolean | undefined;
}

export const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
export type Effort = (typeof efforts)[number];

export interface ReasoningOptions {
  /** Null: the model's own default. `none` switches reasoning off where that is possible. */
  readonly effort: Effort | null;
  readonly budgetTokens: number | null;
  /** The model shall reason as much as it sees fit, as Anthropic's newer models are told. */
  readonly isAdaptive?: boolean;
  /** False: the client does not want to see the reasoning's text. */
  readonly visible: boolean;
}

export interface Tool {
  readonly name: string;
  readonly description?: string | undefined;
  /** JSON Schema of its arguments; null for none. */
  readonly parameters: Readonly<Record<string, unknown>> | null;
  readonly strict?: boolean | undefined;
  readonly cacheControl?: CacheControl | undefined;
}

/** A mark for prompt caching as the client wrote it: Anthropic's, or the field that is OpenAI's. */
export type CacheControl = Readonly<Record<string, unknown>>;

export type Turn =
  | { readonly role: 'system'; readonly parts: readonly TextPart[] }
  /** Results of tools come first, then what the user says to them. */
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
  /** http(s), or a `data:` URL with the picture itself. */
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

/** A thought of an earlier turn. Right before a tool call it belongs to that call. */
export interface ReasoningPart {
  readonly kind: 'reasoning';
  /** May be empty where there is a signature. */
  readonly text: string;
  /** The provider's proof that the thought is its own; see signature.ts for whose it is. */
  readonly signature?: string | undefined;
  /** A whole encrypted thought, in place of text; the same file tells whose that is, too. */
  readonly redacted?: string | undefined;
}

interface RefusalPart {
  readonly kind: 'refusal';
  readonly text: string;
}

/**
 * The words of a prompt, in bytes: what is said in it and what its tools are called, not the JSON
 * around them. Only for prompts that nobody counted, or not yet; no request has an empty one.
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

/** A page of a PDF is some 50 KB in base64 and 2,000 tokens: eight letters count as one byte. */
const fileCharactersPerByte = 8;
/** A second of sound is some 20 KB of MP3 in base64, 64 KB of samples, and at least 10 tokens. */
const audioCharactersPerByte = 500;
/** The bytes of a picture say nothing about its tokens; the least that anybody counts is 85. */
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
