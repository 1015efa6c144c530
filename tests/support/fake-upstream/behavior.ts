/**
 * What the fake upstream can be told to do: an answer (what it says) and a delivery (how the bytes
 * travel). Both are plain JSON, so that the same script reaches a fake in another process.
 */

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
  /** An object is sent as JSON; a string is sent as it is, valid JSON or not. */
  readonly arguments: unknown;
  readonly id?: string;
}

export interface ReportedTokens {
  readonly prompt?: number;
  readonly completion?: number;
}

export interface ChatOptions {
  /** Numbers to report instead of the counted words. */
  readonly usage?: ReportedTokens;
  /** Into how many pieces the text is split; without it, one piece per word. */
  readonly chunks?: number;
  /** Pause between two events of a stream. */
  readonly chunkDelayMs?: number;
  /** A finish reason in OpenAI's words; the other dialects translate it. */
  readonly finish?: string;
  readonly reasoning?: string;
  readonly cachedTokens?: number;
}

export interface ChatAnswer extends ChatOptions {
  readonly kind: 'chat';
  readonly text: string;
  readonly tools?: readonly ToolCall[];
  /** Says the text of the last message instead of `text`. */
  readonly echo?: boolean;
  /** Says "x " this many times, one event each, many events to a write. */
  readonly tinyEvents?: number;
  /** 'none' reports nothing; an object is sent as it is. */
  readonly usageSent?: 'none' | Readonly<Record<string, unknown>>;
  readonly ending?: 'no-done' | 'done-twice' | 'data-after-done';
  readonly shape?: 'always-json' | 'always-sse';
  readonly spoil?: { readonly afterEvents: number; readonly with: Spoil };
  readonly syntax?: SseSyntax;
}

/** The two errors end the stream; the other two are one bad event in a stream that goes on. */
export type Spoil = 'error-data' | 'error-event' | 'malformed-json' | 'unfinished-character';

export interface SseSyntax {
  readonly lineEnd?: '\n' | '\r\n' | '\r';
  readonly byteOrderMark?: boolean;
  readonly noSpace?: boolean;
  readonly comments?: boolean;
  /** Splits each JSON over several `data:` lines. */
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
  /** Sent chunked, as streams are, instead of with a Content-Length. */
  readonly streamed: boolean;
  /** One part per server-sent event, so that faults can count events. */
  readonly byEvent: boolean;
  readonly partDelayMs: number;
}

/** An error in the format of the endpoint that was called. */
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
 * How an answer stops before its end. 'end-of-body' is correct HTTP around half an answer;
 * 'connection' closes without the last chunk; 'mid-chunk' closes inside a chunk.
 */
export type Stop = 'hang' | 'reset' | 'end-of-body' | 'connection' | 'mid-chunk';

export interface Delivery {
  /** Answers when the headers are in, before the body: only for scripts by path or '*'. */
  readonly early?: boolean;
  readonly delayMs?: number;
  /** How many 103 replies come before the real one. */
  readonly interim?: number;
  readonly stop?: { readonly afterEvents: number | 'before-headers'; readonly how: Stop };
  /** Waits after this many events until the test opens the gate of this name. */
  readonly gate?: { readonly name: string; readonly afterEvents: number };
  readonly truncateAtByte?: number;
  readonly pieceBytes?: number;
  readonly pieceDelayMs?: number;
  /** Splits every multi-byte character over two writes. */
  readonly splitCharacters?: boolean;
  /** Innermost first, as the Content-Encoding header lists them. */
  readonly encodings?: readonly Encoding[];
  readonly contentLengthOff?: number;
  /** Neither Content-Length nor chunks: the body ends with the connection. */
  readonly untilClose?: boolean;
  /** A list, because some odd replies repeat a header's name. */
  readonly extraHeaders?: readonly (readonly [string, string])[];
  /** This many bytes of additional header lines. */
  readonly headerFillBytes?: number;
}

export type Encoding = 'gzip' | 'br' | 'deflate';

/** Checks only roughly: scripts come from our own tests. */
export function isBehavior(value: unknown): value is Behavior {
  if (typeof value !== 'object' || value === null) return false;
  if (!('answer' in value) || !('delivery' in value)) return false;
  const { answer, delivery } = value;
  if (typeof delivery !== 'object' || delivery === null) return false;
  return typeof answer === 'object' && answer !== null && 'kind' in answer;
}
