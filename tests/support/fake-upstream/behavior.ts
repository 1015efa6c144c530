// Behaviors of the fake upstream. A behavior has an answer (the content) and a delivery (how the
// bytes are sent). Both are plain JSON, so that they can be sent to a fake in another process.

export interface Behavior {
  readonly answer: Answer;
  readonly delivery: Delivery;
}

export type Answer =
  | ChatAnswer
  | EmbeddingsAnswer
  | SpeechAnswer
  | TranscriptionAnswer
  | ImagesAnswer
  | RawAnswer
  | ErrorAnswer
  | HugeLineAnswer;

export interface ToolCall {
  readonly name: string;
  /** An object is sent as JSON. A string is sent unchanged. */
  readonly arguments: unknown;
  readonly id?: string;
}

export interface ReportedTokens {
  readonly prompt?: number;
  readonly completion?: number;
}

export interface ChatOptions {
  /** Token counts to report instead of the number of words. */
  readonly usage?: ReportedTokens;
  /** The number of pieces of the text. By default, there is one per word. */
  readonly chunks?: number;
  /** The delay between the events of a stream. */
  readonly chunkDelayMs?: number;
  /** An OpenAI finish reason. The other dialects map it to their own. */
  readonly finish?: string;
  readonly reasoning?: string;
  readonly cachedTokens?: number;
}

export interface ChatAnswer extends ChatOptions {
  readonly kind: 'chat';
  readonly text: string;
  readonly tools?: readonly ToolCall[];
  /** Sends the text of the last message instead of `text`. */
  readonly echo?: boolean;
  /** Sends this many events with the text "x ", and many events per write. */
  readonly tinyEvents?: number;
  /** 'none' sends no usage. An object is sent unchanged. */
  readonly usageSent?: 'none' | Readonly<Record<string, unknown>>;
  readonly ending?: 'no-done' | 'done-twice' | 'data-after-done';
  readonly shape?: 'always-json' | 'always-sse';
  readonly fault?: { readonly afterEvents: number; readonly with: StreamFault };
  readonly syntax?: SseSyntax;
}

/** The errors end the stream. The other two send one invalid event, and the stream continues. */
export type StreamFault = 'error-data' | 'error-event' | 'malformed-json' | 'unfinished-character';

export interface SseSyntax {
  readonly lineEnd?: '\n' | '\r\n' | '\r';
  readonly byteOrderMark?: boolean;
  readonly noSpace?: boolean;
  readonly comments?: boolean;
  /** Splits each JSON object into several `data:` lines. */
  readonly manyDataLines?: boolean;
  /** Adds `id:` and `retry:` fields and an event with an unknown name. */
  readonly oddFields?: boolean;
}

export interface EmbeddingsAnswer {
  readonly kind: 'embeddings';
  readonly dimensions: number;
  readonly usage?: ReportedTokens;
}

export interface SpeechAnswer {
  readonly kind: 'speech';
  readonly audioBytes: number;
  readonly pieceBytes: number;
  readonly pieceDelayMs: number;
  readonly contentType: string;
}

export interface TranscriptionAnswer {
  readonly kind: 'transcription';
  readonly text: string;
  readonly seconds: number;
}

export interface ImagesAnswer {
  readonly kind: 'images';
  readonly base64: string;
  readonly usage?: ReportedTokens;
}

export interface RawAnswer {
  readonly kind: 'raw';
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly bodyBase64: string;
  /** True if the body is sent in chunks, as in a stream, instead of with a Content-Length. */
  readonly streamed: boolean;
  /** Sends one part per server-sent event, so that faults can count events. */
  readonly byEvent: boolean;
  readonly partDelayMs: number;
}

/** An error in the endpoint's format. */
interface ErrorAnswer {
  readonly kind: 'error';
  readonly status: number;
  readonly message: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface HugeLineAnswer {
  readonly kind: 'huge-line';
  readonly bytes: number;
}

/**
 * How an answer stops before its end. 'end-of-body' ends a valid HTTP response with half an answer,
 * 'connection' closes the connection before the last chunk, and 'mid-chunk' closes it in a chunk.
 */
export type Stop = 'hang' | 'reset' | 'end-of-body' | 'connection' | 'mid-chunk';

export interface Delivery {
  /** Answers before the request's body arrives. Works only in scripts for a path or '*'. */
  readonly early?: boolean;
  readonly delayMs?: number;
  /** The number of 103 responses before the real one. */
  readonly interim?: number;
  readonly stop?: { readonly afterEvents: number | 'before-headers'; readonly how: Stop };
  /** Waits after this many events until the test opens the named gate. */
  readonly gate?: { readonly name: string; readonly afterEvents: number };
  readonly truncateAtByte?: number;
  readonly pieceBytes?: number;
  readonly pieceDelayMs?: number;
  /** Splits every multi-byte character between two writes. */
  readonly splitCharacters?: boolean;
  /** In the order of the Content-Encoding header, innermost first. */
  readonly encodings?: readonly Encoding[];
  readonly contentLengthOff?: number;
  /** Sends neither a Content-Length nor chunks. The body ends when the connection closes. */
  readonly untilClose?: boolean;
  /** A list, because a header can occur several times. */
  readonly extraHeaders?: readonly (readonly [string, string])[];
  /** Sends this many bytes of additional headers. */
  readonly headerFillBytes?: number;
}

export type Encoding = 'gzip' | 'br' | 'deflate';

/** Checks only the top level, because scripts come from our own tests. */
export function isBehavior(value: unknown): value is Behavior {
  if (typeof value !== 'object' || value === null) return false;
  if (!('answer' in value) || !('delivery' in value)) return false;
  const { answer, delivery } = value;
  if (typeof delivery !== 'object' || delivery === null) return false;
  return typeof answer === 'object' && answer !== null && 'kind' in answer;
}
