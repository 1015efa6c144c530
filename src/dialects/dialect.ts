import type { DialectName, Quirks } from '../config/provider-schema.ts';
import type { AnswerSink } from '../core/answer.ts';
import type { GatewayError } from '../core/errors.ts';
import type { LongBytes } from '../core/form.ts';
import type { Prompt, UnsupportedPart } from '../core/prompt.ts';
import type { ChatRequestInfo } from '../core/request-info.ts';
import type { Usage } from '../core/usage.ts';

/**
 * A dialect is code, pure and synchronous; a provider is data. The client's dialect and the
 * upstream's meet here: a stream or a reply goes through one relay, whatever the two speak.
 */

/** One message of an event stream. */
export interface SseMessage {
  /** The `event:` line; null when there was none. */
  readonly event: string | null;
  readonly data: string;
}

/** How an answer presents itself to the client: never with the upstream's own names. */
export interface ReplyIdentity {
  /** `chatcmpl-…` */
  readonly id: string;
  /** The alias that answered. */
  readonly model: string;
  /** The provider's name. */
  readonly provider: string;
  /** Unix seconds. */
  readonly created: number;
}

/** What an upstream said went wrong, before anybody decides what to do about it. */
export interface UpstreamFailure {
  readonly kind: FailureKind;
  /** HTTP status, or the one an in-stream error claims; null for a broken connection. */
  readonly status: number | null;
  /** The upstream's own sentence, at most 500 characters; may name upstream models or hosts. */
  readonly message: string;
  /** The field of the request that the upstream complains of, by the upstream's name for it. */
  readonly param?: string | undefined;
  /** Seconds the upstream asked us to wait, from a header or its body. */
  readonly retryAfterSeconds: number | null;
}

/** A value read from an answer, or the failure that took its place. */
export type ReadResult<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly failure: UpstreamFailure };

/**
 * What decides where a failed request goes next.
 * `request`: the request itself is at fault; another provider of the same model would agree.
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

/** What the meter and the log need to know about an answer, however it was relayed. */
export interface AnswerMetrics {
  /** As the upstream reported it; undefined when it said nothing usable. */
  readonly usage: Usage | undefined;
  /** Part of that usage is a guess: the upstream had not finished counting. */
  readonly isEstimate?: boolean;
  /** In OpenAI's words (`stop`, `length`, `tool_calls`, `content_filter`); never invented. */
  readonly finishReason: string | undefined;
  /** Characters of text, reasoning and tool arguments delivered so far: the basis of estimates. */
  readonly outputCharacters: number;
  /** Set once the upstream failed inside its answer. */
  readonly failure: UpstreamFailure | undefined;
}

/** Settled numbers that go into the last words of an answer. */
export interface SettledUsage {
  readonly usage: Usage;
  readonly costCredits: number;
  /** Epoch milliseconds; now, unless told. */
  readonly endedAt?: number;
}

/** One upstream stream on its way to one client. Used once, by one request. */
export interface StreamTransform {
  readonly metrics: AnswerMetrics;
  /** One upstream message in, what the client shall see out; '' for nothing. */
  push(message: SseMessage): string;
  /** True once the answer has begun, if only with its opening; comments do not count. */
  readonly started: boolean;
  /** The upstream said how the answer ended: a finish reason was seen. */
  readonly finished: boolean;
  /** The upstream sent its terminator, too: nothing after it is heard. */
  readonly ended: boolean;
  /** The last words of a complete answer: usage if the client wants it, then the terminator. */
  close(settled: SettledUsage): string;
  /** The last words of a broken answer, in the client's dialect; no terminator after it. */
  fail(error: GatewayError): string;
  /** Said while the upstream is silent. */
  keepAlive(): string;
}

/** A whole reply on its way to one client. */
export interface TransformedReply {
  readonly metrics: AnswerMetrics;
  /** The client's body, with settled numbers put in. */
  write(settled: SettledUsage): string;
  /** The client left before the end of the reply, and pays for what was done until then. */
  readonly isCanceled?: boolean;
}

/** A whole reply on its way to a client that asked for a stream. */
export interface StreamedReply {
  /** The relay of the stream, which has ended. */
  readonly transform: StreamTransform;
  /** All that the stream said before its last words. */
  readonly opening: string;
}

/** Addresses of pictures that were fetched, and the `data:` URLs to send instead. */
export type FetchedImages = ReadonlyMap<string, string>;

/** Where a request is going, as far as its wording is concerned. */
export interface Target {
  readonly upstreamModel: string;
  readonly quirks: Quirks;
  /** The output cap to send; null leaves the client's own (or none) in place. */
  readonly outputTokensMax: number | null;
  /**
   * Fetched pictures that this upstream does not fetch itself. In a translated dialogue they are
   * already in place.
   */
  readonly images: FetchedImages;
  /** The most output the model can give; null when nobody wrote it down. */
  readonly modelOutputTokensMax: number | null;
  /** How the model wants to be told about thinking; null when it does not think. */
  readonly thinking: 'adaptive' | 'budget' | 'effort' | null;
  /** Whether the catalogue says that the model reasons. */
  readonly isReasoningModel?: boolean;
  /** What the model can answer with besides text; some make pictures only when asked. */
  readonly outputModalities?: readonly string[] | undefined;
  /** The tenant pays the vendor, with an account of their own. */
  readonly isOwnAccount?: boolean;
}

/** The target of a request other than a chat. */
export type MediaTarget = Pick<
  Target,
  'upstreamModel' | 'quirks' | 'outputModalities' | 'isOwnAccount'
>;

/** A long body with a new beginning: the rest is the client's own bytes, which need no copy. */
export interface SplicedBody {
  readonly start: string;
  readonly rest: Uint8Array;
}

/** A request in the upstream's words. */
export interface UpstreamRequest {
  /** Appended to the provider's base URL. */
  readonly path: string;
  readonly body: string | Uint8Array | SplicedBody | LongBytes;
  /** Headers in addition to those that every request to this provider has. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Parameters of the client's that this upstream has no words for, by the client's names. */
  readonly dropped?: readonly string[];
}

/** The way from one client dialect to one upstream dialect and back, for one request. */
export interface Adapter {
  write(target: Target): UpstreamRequest;
  transformStream(identity: ReplyIdentity): StreamTransform;
  transformReply(text: string, identity: ReplyIdentity): ReadResult<TransformedReply>;
  /** A whole reply where a stream was asked for. Undefined when only the form asked for will do. */
  streamReply(text: string, identity: ReplyIdentity): ReadResult<StreamedReply> | undefined;
}

/** An upstream's dialect: our words into its requests, its answers into our words. */
export interface UpstreamDialect {
  /** Longer names of tools are shortened on the way there and told in full on the way back. */
  readonly toolNameLengthMax: number;
  /** Requests cannot name content by its address: such content is sent as bytes. */
  readonly requiresInlineContent?: boolean;
  /** How a model thinks when only its name is known; null where it is better not asked to think. */
  defaultThinking?(upstreamModel: string): Target['thinking'];
  write(prompt: Prompt, target: Target): UpstreamRequest;
  /** `toolNames`: the upstream's names of the tools, to recognise a name that comes in pieces. */
  readStream(sink: AnswerSink, toolNames?: readonly string[]): StreamReader;
  /** Tells a whole answer to the listener; answers the failure if it is one. */
  readReply(text: string, sink: AnswerSink): UpstreamFailure | undefined;
}

/** One stream of an upstream on its way into our words. */
export interface StreamReader {
  /** Tells one message to the listener; answers the failure that the message carries, if any. */
  push(message: SseMessage): UpstreamFailure | undefined;
  /** The upstream said that its answer is whole: what may follow is usage at most. */
  readonly finished: boolean;
  /** The upstream sent its terminator, and nothing follows. Left out where a dialect has none. */
  readonly ended?: boolean;
}

/** A client's dialect: our words into what it wants to hear. */
export interface ClientDialect {
  writeStream(identity: ReplyIdentity): StreamWriter;
  writeReply(identity: ReplyIdentity): ReplyWriter;
}

/** One stream on its way into a client's words. */
export interface StreamWriter extends AnswerSink {
  /** What there is to send since the last time. */
  take(): string;
  close(settled: SettledUsage): string;
  fail(error: GatewayError): string;
  keepAlive(): string;
  /** Whether its client would run a tool with half an input if the answer ended here. */
  readonly hasOpenToolCall?: boolean;
}

/** One whole answer on its way into a client's words. */
export interface ReplyWriter extends AnswerSink {
  write(settled: SettledUsage): string;
}

/** The identity of a stream before any upstream has answered. */
export type StreamIdentity = Pick<ReplyIdentity, 'id' | 'model' | 'created'>;

/** What the gateway itself says to a client in a stream. */
export interface StreamFormat {
  /** Said instead of an answer; nothing comes after it. */
  fail(error: GatewayError, identity: StreamIdentity): string;
}

/** One chat request as its client worded it, ready to be put to any upstream that can take it. */
export interface ClientRequest {
  readonly request: ChatRequestInfo;
  readonly streamFormat: StreamFormat;
  /** Undefined when that dialect has no chat. */
  adapterFor(dialect: DialectName): Adapter | undefined;
  /** A part that is all of its message, and that upstreams of `dialect` cannot be told. */
  unsupportedPartFor(dialect: DialectName): UnsupportedPart | undefined;
  /** The whole request in our words. */
  toPrompt(): Prompt;
  /** The same conversation with more instructions after the client's own. */
  withInstructions(text: string): ClientRequest;
  /** Writes an answer that is told in our words for this client. */
  readonly client: ClientDialect;
  /** Everything that decides the answer, but for whether it is streamed. */
  cacheKeyInput(): unknown;
  /** Whether a streamed answer and a whole one cannot be turned into each other without a loss. */
  readonly isStreamModeFixed: boolean;
  /** At temperature 0 the same request is meant to get the same answer. */
  readonly temperature: number | null;
}

/** The parts of a request that decide which upstream counts its tokens. */
export type TokenCountRequestInfo = Pick<
  ChatRequestInfo,
  'models' | 'preferences' | 'parameters' | 'addresses' | 'images' | 'ownAccount'
>;

/** One request whose tokens are to be counted, ready to be put to upstreams that count. */
export interface TokenCountRequest {
  readonly request: TokenCountRequestInfo;
  /** Whether upstreams of `dialect` can be asked to count this request. */
  supports(dialect: DialectName): boolean;
  /** Undefined when this upstream could not take the request as it is. */
  write(target: CountTarget): UpstreamRequest | undefined;
  /** Undefined for an answer that is neither a count nor a refusal of the request. */
  read(status: number, text: string): TokenCountResult | undefined;
}

export type CountTarget = Pick<Target, 'upstreamModel' | 'quirks'>;

/** A count as clients hear it, and the count before context editing, if there was any. */
export interface TokenCount {
  readonly input_tokens: number;
  readonly context_management?: { readonly original_input_tokens: number };
}

/** The count, or what is wrong with the request in the upstream's own sentence. */
export type TokenCountResult = TokenCount | { readonly fault: string };
