import type { DialectName, Quirks } from '../config/provider-schema.ts';
import type { AnswerSink } from '../core/answer.ts';
import type { GatewayError } from '../core/errors.ts';
import type { StreamedContent } from '../core/form.ts';
import type { Prompt, UnsupportedPart } from '../core/prompt.ts';
import type { ChatRequestInfo, ModelNeeds } from '../core/request-info.ts';
import type { Usage } from '../core/usage.ts';

// Types shared by all dialects. A dialect is pure, synchronous code. A provider is configuration.
// For one request, an adapter converts between the client's dialect and the upstream's.

/** One message of an event stream. */
export interface SseMessage {
  /** The value of the `event:` line, or null if there was none. */
  readonly event: string | null;
  readonly data: string;
}

/** The identifying fields of an answer to the client. They replace the upstream's. */
export interface ReplyIdentity {
  /** `chatcmpl-…` */
  readonly id: string;
  /** The model alias that answered. */
  readonly model: string;
  /** The provider's name. */
  readonly provider: string;
  /** Unix seconds. */
  readonly created: number;
}

/** An error reported by an upstream, before the gateway decides how to handle it. */
export interface UpstreamFailure {
  readonly kind: FailureKind;
  /**
   * The HTTP status, or the status that an error in the answer claims. Null if there is neither,
   * for example after a broken connection.
   */
  readonly status: number | null;
  /** The upstream's message, at most 500 characters. May name upstream models or hosts. */
  readonly message: string;
  /** The upstream's name for the request field that it rejected. */
  readonly param?: string | undefined;
  /** How long to wait before a retry, from a response header or the body. */
  readonly retryAfterSeconds: number | null;
  /** True if the client disconnected while the upstream was processing the full request. */
  readonly isAbandoned?: boolean;
}

/** A value read from an answer, or the failure found instead of it. */
export type ReadResult<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly failure: UpstreamFailure };

/**
 * The kind of a failure, which decides where the request is sent next. `request` means that the
 * request itself is invalid, so other providers of the same model would reject it too.
 */
export type FailureKind =
  | 'request'
  | 'credential'
  | 'rate_limited'
  | 'quota'
  | 'overloaded'
  | 'timeout'
  | 'server'
  | 'unreachable'
  | 'malformed';

/** What billing and logging need to know about an answer. */
export interface AnswerMetrics {
  /** The usage that the upstream reported; undefined if the report is missing or implausible. */
  readonly usage: Usage | undefined;
  /** True if part of the usage is an estimate, because the upstream hadn't finished counting. */
  readonly isEstimate?: boolean;
  /**
   * OpenAI's finish reason (`stop`, `length`, `tool_calls`, or `content_filter`); undefined until
   * the upstream has sent one.
   */
  readonly finishReason: string | undefined;
  /**
   * The number of characters in the output so far, including reasoning and tool calls. Used to
   * estimate usage.
   */
  readonly outputCharacters: number;
  /** Set when the upstream fails in the middle of its answer. */
  readonly failure: UpstreamFailure | undefined;
}

/** Settled usage and cost, written at the end of an answer. */
export interface SettledUsage {
  readonly usage: Usage;
  readonly costCredits: number;
  /** The cost in dollars, for clients that expect dollars. */
  readonly costUsd?: number;
  /** Epoch milliseconds. Defaults to now. */
  readonly endedAt?: number;
}

/** Returns the cost in the unit that the client expects. */
export function costForClient({ costUsd, costCredits }: SettledUsage): number {
  return costUsd ?? costCredits;
}

/** Transforms one upstream stream for one client. Used for a single request. */
export interface StreamTransform {
  readonly metrics: AnswerMetrics;
  /** Takes one upstream message and returns the text to send to the client, or ''. */
  push(message: SseMessage): string;
  /** True once the answer has begun, even if it has no content yet. SSE comments don't count. */
  readonly started: boolean;
  /** True once a finish reason was received. */
  readonly finished: boolean;
  /** True once the terminator was received. Messages after it are ignored. */
  readonly ended: boolean;
  /**
   * Returns the end of a complete answer: the usage if the client requested it, then the
   * terminator.
   */
  close(settled: SettledUsage): string;
  /** Returns the end of a broken answer in the client's format, without a terminator. */
  fail(error: GatewayError): string;
  /** Returns the text to send while the upstream is silent. */
  keepAlive(): string;
}

/** A non-streaming response, ready to be written for one client. */
export interface TransformedReply {
  readonly metrics: AnswerMetrics;
  /** Returns the body in the client's format, with the settled numbers. */
  write(settled: SettledUsage): string;
  /**
   * True if the client disconnected before the end. The tenant pays for the work done until then.
   */
  readonly isCanceled?: boolean;
}

/** A non-streaming response for a client that requested a stream. */
export interface StreamedReply {
  /** The transform of the stream, which has already ended. */
  readonly transform: StreamTransform;
  /** Everything in the stream except its end. */
  readonly opening: string;
}

/** Maps the URLs of fetched images to the `data:` URLs to send instead. */
export type FetchedImages = ReadonlyMap<string, string>;

/** The properties of an offer that determine how the request is written. */
export interface Target {
  readonly upstreamModel: string;
  /** The provider's name, which marks reasoning that only its own provider accepts. */
  readonly provider?: string;
  readonly quirks: Quirks;
  /** The output cap to send. If null, the client's own cap is sent, if there is one. */
  readonly outputTokensMax: number | null;
  /**
   * Images that the gateway fetched, because the upstream doesn't fetch URLs. Prompts passed to
   * `UpstreamDialect.write` already contain them.
   */
  readonly images: FetchedImages;
  /** The model's maximum output; null if the catalog doesn't specify it. */
  readonly modelOutputTokensMax: number | null;
  /** How a request controls the model's reasoning; null if the model doesn't reason. */
  readonly thinking: 'adaptive' | 'budget' | 'effort' | null;
  /** True if the catalog lists the model as a reasoning model. */
  readonly isReasoningModel?: boolean;
  /** The model's output modalities. Some models generate images only on request. */
  readonly outputModalities?: readonly string[] | undefined;
  /** True if the request uses the tenant's own vendor account. */
  readonly isOwnAccount?: boolean;
  /** The tenant that sent the request. */
  readonly tenantId?: string;
}

/** The target of a request for embeddings, images, speech, or a transcription. */
export type MediaTarget = Pick<
  Target,
  'upstreamModel' | 'quirks' | 'outputModalities' | 'isOwnAccount'
>;

/**
 * A long body whose start was rewritten. `rest` refers to the client's bytes without copying them.
 */
export interface SplicedBody {
  readonly start: string;
  readonly rest: Uint8Array;
}

/** A request body as the client sent it. */
export interface RawBody {
  readonly text: string;
  readonly bytes: Uint8Array;
  /** The number of names in all objects, with duplicates, if the text was scanned for limits. */
  readonly names?: number;
}

/** Changes to a body by field name: a value to set, or undefined to remove the field. */
export type Edits = Record<string, unknown>;

/** A request in the upstream's format. */
export interface UpstreamRequest {
  /** The path to append to the provider's base URL. */
  readonly path: string;
  readonly body: string | Uint8Array | SplicedBody | StreamedContent;
  /** Headers to send in addition to those that every request to this provider has. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The parameters that this upstream can't express, by the client's names. */
  readonly dropped?: readonly string[];
}

/** Converts one request to an upstream's dialect, and the answer back to the client's. */
export interface Adapter {
  write(target: Target): UpstreamRequest;
  transformStream(identity: ReplyIdentity): StreamTransform;
  transformReply(text: string, identity: ReplyIdentity): ReadResult<TransformedReply>;
  /**
   * Writes a non-streaming response as a stream. Returns undefined if the conversion would lose
   * something.
   */
  streamReply(text: string, identity: ReplyIdentity): ReadResult<StreamedReply> | undefined;
}

/** The chat side of an upstream dialect: writes prompts as requests and reads the answers. */
export interface UpstreamDialect {
  /**
   * The request parameters that the dialect can express. OpenAI-style upstreams get every
   * parameter, even unknown ones.
   */
  readonly parameters: readonly string[] | 'everything';
  /**
   * The maximum length of a tool name. Longer names are shortened in requests and restored in
   * answers.
   */
  readonly toolNameLengthMax: number;
  /** True if requests can't reference content by URL. All content must then be sent inline. */
  readonly requiresInlineContent: boolean;
  /** Infers from a model's name how it reasons; null if it doesn't reason or isn't known. */
  defaultThinking(upstreamModel: string): Target['thinking'];
  write(prompt: Prompt, target: Target): UpstreamRequest;
  /**
   * `toolNames` are the names sent upstream. The reader uses them to join a name that arrives in
   * fragments. `provider` is the name of the provider that answers.
   */
  readStream(sink: AnswerSink, toolNames: readonly string[], provider?: string): StreamReader;
  /** Emits a non-streaming response to the sink. Returns the failure if the text isn't valid. */
  readReply(text: string, sink: AnswerSink, provider?: string): UpstreamFailure | undefined;
}

/** Reads one upstream stream and emits neutral events. */
export interface StreamReader {
  /**
   * Emits the content of one message to the sink. Returns the failure if the message contains one.
   */
  push(message: SseMessage): UpstreamFailure | undefined;
  /** True once the answer is complete. Only usage may follow. */
  readonly finished: boolean;
  /** True once the terminator has arrived. Always false in dialects that have no terminator. */
  readonly ended: boolean;
}

/** Writes neutral events in the client's wire format. */
export interface ClientDialect {
  writeStream(identity: ReplyIdentity): StreamWriter;
  writeReply(identity: ReplyIdentity): ReplyWriter;
}

/** Writes one stream in the client's format. */
export interface StreamWriter extends AnswerSink {
  /** Returns the text written since the last call. */
  take(): string;
  close(settled: SettledUsage): string;
  fail(error: GatewayError): string;
  keepAlive(): string;
}

/** Writes one non-streaming response in the client's format. */
export interface ReplyWriter extends AnswerSink {
  write(settled: SettledUsage): string;
}

/** The identity of a stream before any upstream answers. */
export type StreamIdentity = Pick<ReplyIdentity, 'id' | 'model' | 'created'>;

/** Writes the gateway's own errors to a client in a stream. */
export interface StreamFormat {
  /** Returns an error that replaces the answer and ends the stream. */
  fail(error: GatewayError, identity: StreamIdentity): string;
}

/** A chat request in the client's dialect, which can be sent to any upstream that supports it. */
export interface ClientRequest {
  readonly request: ChatRequestInfo;
  readonly streamFormat: StreamFormat;
  /** Returns undefined if the dialect doesn't support chat. */
  adapterFor(dialect: DialectName): Adapter | undefined;
  /**
   * Returns a part that `dialect` can't express and that is the only part of its message; undefined
   * if there is none.
   */
  unsupportedPartFor(dialect: DialectName): UnsupportedPart | undefined;
  /** Returns the request in its neutral form. */
  toPrompt(): Prompt;
  /** Returns the request with instructions added after the client's own. */
  withInstructions(text: string): ClientRequest;
  /** Writes neutral answers for this client. */
  readonly client: ClientDialect;
  /** Returns everything that determines the answer, except whether it is streamed. */
  cacheKeyInput(): unknown;
  /** True if converting a stream to a complete response, or the reverse, would lose content. */
  readonly isStreamModeFixed: boolean;
  /** At temperature 0, the client expects the same answer to the same request. */
  readonly temperature: number | null;
}

/** The properties of a request that determine which upstream counts its tokens. */
export type TokenCountRequestInfo = Pick<
  ChatRequestInfo,
  'models' | 'preferences' | 'parameters' | 'user' | 'urls' | 'images' | 'ownAccount'
> &
  // The conditions of aliases compare these.
  Partial<Pick<ChatRequestInfo, 'inputBytes'>> & {
    readonly needs?: Pick<ModelNeeds, 'tools'>;
  };

/** A request to count tokens, which can be sent to any upstream that counts them. */
export interface TokenCountRequest {
  readonly request: TokenCountRequestInfo;
  /** Returns true if upstreams of `dialect` can count the tokens of this request. */
  supports(dialect: DialectName): boolean;
  /** Returns undefined if the upstream can't count this request. */
  write(target: CountTarget): UpstreamRequest | undefined;
  /** Returns undefined for an answer that is neither a count nor a rejection of the request. */
  read(status: number, text: string): TokenCountResult | undefined;
}

export type CountTarget = Pick<Target, 'upstreamModel' | 'quirks'>;

/**
 * A token count in the client's format. If the context was edited, it also has the count from
 * before that.
 */
export interface TokenCount {
  readonly input_tokens: number;
  readonly context_management?: { readonly original_input_tokens: number };
}

/** The count, or the upstream's message about what is wrong with the request. */
export type TokenCountResult = TokenCount | { readonly fault: string };
