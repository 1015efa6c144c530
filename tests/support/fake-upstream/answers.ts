/** Functions that create the fake upstream's answers. `deliveries.ts` changes how they are sent. */

import { brotliCompressSync, constants } from 'node:zlib';
import type {
  Behavior,
  ChatAnswer,
  ChatOptions,
  Encoding,
  ReportedTokens,
  SseSyntax,
  StreamFault,
  ToolCall,
} from './behavior.ts';

/** Returns "w1 w2 … wn": n completion tokens and, by default, n text events. */
export function words(count: number): string {
  return Array.from({ length: count }, (_, index) => `w${index + 1}`).join(' ');
}

function chat(answer: Omit<ChatAnswer, 'kind'>): Behavior {
  return { answer: { kind: 'chat', ...answer }, delivery: {} };
}

/** Answers with a text on chat endpoints, and with a minimal success on other endpoints. */
export function chatAnswer(text: string, options: ChatOptions = {}): Behavior {
  return chat({ text, ...options });
}

/** Answers with the text of the last message, so that tests can match answers with requests. */
export function echo(options: ChatOptions = {}): Behavior {
  return chat({ text: '', echo: true, ...options });
}

export function callTools(
  tools: readonly ToolCall[],
  options: ChatOptions & { readonly text?: string } = {},
): Behavior {
  return chat({ text: '', ...options, tools });
}

export function manyTinyEvents(count: number): Behavior {
  return chat({ text: '', tinyEvents: count });
}

/** Sends a `data:` line of this many bytes that never ends. */
export function hugeEvent(bytes: number): Behavior {
  return { answer: { kind: 'huge-line', bytes }, delivery: {} };
}

/** Changes a chat answer. Throws for other kinds of answers. */
function changeAnswer(behavior: Behavior, change: Partial<ChatAnswer>): Behavior {
  if (behavior.answer.kind !== 'chat')
    throw new TypeError(`${behavior.answer.kind} isn't a chat answer.`);
  return { answer: { ...behavior.answer, ...change }, delivery: behavior.delivery };
}

export function withoutDone(of: Behavior = chatAnswer('complete')): Behavior {
  return changeAnswer(of, { ending: 'no-done' });
}

export function doneTwice(of: Behavior = chatAnswer('complete')): Behavior {
  return changeAnswer(of, { ending: 'done-twice' });
}

export function dataAfterDone(of: Behavior = chatAnswer('complete')): Behavior {
  return changeAnswer(of, { ending: 'data-after-done' });
}

export function withoutUsage(of: Behavior = chatAnswer('nobody counted these')): Behavior {
  return changeAnswer(of, { usageSent: 'none' });
}

/** Sends the usage object unchanged, even if it is invalid. */
export function rawUsage(
  usage: Readonly<Record<string, unknown>>,
  of: Behavior = chatAnswer('with this usage'),
): Behavior {
  return changeAnswer(of, { usageSent: usage });
}

export function jsonForStream(of: Behavior = chatAnswer('not a stream')): Behavior {
  return changeAnswer(of, { shape: 'always-json' });
}

export function sseForJson(of: Behavior = chatAnswer('not one object')): Behavior {
  return changeAnswer(of, { shape: 'always-sse' });
}

export function sseSyntax(syntax: SseSyntax, of: Behavior = chatAnswer(words(5))): Behavior {
  return changeAnswer(of, { syntax });
}

function withFault(afterEvents: number, fault: StreamFault, of: Behavior | undefined): Behavior {
  return changeAnswer(of ?? chatAnswer(words(afterEvents + 10)), {
    fault: { afterEvents, with: fault },
  });
}

/** Sends one event with invalid JSON and continues. A non-streaming answer has invalid JSON. */
export function malformedSse(afterEvents = 2, of?: Behavior): Behavior {
  return withFault(afterEvents, 'malformed-json', of);
}

/** Sends a JSON string with the first half of an emoji before its closing quote. */
export function unfinishedCharacter(afterEvents = 2, of?: Behavior): Behavior {
  return withFault(afterEvents, 'unfinished-character', of);
}

/**
 * Sends status 200 and then an error, which ends the answer. 'event' sends the error with the line
 * `event: error`, as Groq does. Anthropic's errors always have that line.
 */
export function errorInside200(
  afterEvents = 2,
  variant: 'data' | 'event' = 'data',
  of?: Behavior,
): Behavior {
  return withFault(afterEvents, variant === 'data' ? 'error-data' : 'error-event', of);
}

interface RawOptions {
  readonly status?: number;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** By default, event streams and audio are chunked. Other answers have a Content-Length. */
  readonly streamed?: boolean;
}

function raw(body: Uint8Array, options: RawOptions, parts: 'whole' | 'events', partDelayMs = 0) {
  const contentType = options.contentType ?? 'application/json';
  const answer = {
    kind: 'raw',
    status: options.status ?? 200,
    headers: { 'content-type': contentType, ...options.headers },
    bodyBase64: Buffer.from(body).toString('base64'),
    streamed: options.streamed ?? /event-stream|^audio\//.test(contentType),
    byEvent: parts === 'events',
    partDelayMs,
  } as const;
  return { answer, delivery: {} } satisfies Behavior;
}

export interface ReplayOptions extends RawOptions {
  readonly piece?: 'whole' | 'byte by byte' | 'event by event' | number;
  readonly delayMs?: number;
}

/** Sends recorded bytes in pieces of the given size. */
export function replay(bytes: Uint8Array | string, options: ReplayOptions = {}): Behavior {
  const body = typeof bytes === 'string' ? Buffer.from(bytes) : bytes;
  const { piece = 'whole', delayMs = 0 } = options;
  if (piece === 'event by event') return raw(body, options, 'events', delayMs);
  const full = raw(body, options, 'whole');
  if (piece === 'whole') return { answer: full.answer, delivery: { delayMs } };
  const pieceBytes = piece === 'byte by byte' ? 1 : piece;
  return { answer: full.answer, delivery: { pieceBytes, pieceDelayMs: delayMs } };
}

export function json(
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Behavior {
  return raw(Buffer.from(JSON.stringify(body)), { status, headers }, 'whole');
}

export function htmlWith200(): Behavior {
  const page = '<!doctype html><html><body><h1>Please sign in to the proxy</h1></body></html>';
  return raw(Buffer.from(page), { contentType: 'text/html; charset=utf-8' }, 'whole');
}

export function emptyBody(status = 200): Behavior {
  return raw(new Uint8Array(), { status }, 'whole');
}

export function redirect(to: string, status = 302): Behavior {
  return raw(new Uint8Array(), { status, headers: { location: to } }, 'whole');
}

/** Sends a small compressed body that decompresses to `unpackedBytes` spaces, which JSON allows. */
export function compressionBomb(unpackedBytes: number): Behavior {
  const params = { [constants.BROTLI_PARAM_QUALITY]: 4 };
  const packed = brotliCompressSync(Buffer.alloc(unpackedBytes, ' '), { params });
  const encoding: Encoding = 'br';
  return raw(packed, { headers: { 'content-encoding': encoding } }, 'whole');
}

/** Sends an error in the endpoint's format. */
export function status(
  code: number,
  message = `fake upstream says ${code}`,
  headers: Readonly<Record<string, string>> = {},
): Behavior {
  return { answer: { kind: 'error', status: code, message, headers }, delivery: {} };
}

export function status429(retryAfter?: string): Behavior {
  const headers = retryAfter === undefined ? {} : { 'retry-after': retryAfter };
  return status(429, 'Rate limit reached', headers);
}

export function status500(): Behavior {
  return status(500, 'The server had an error while processing your request');
}

export function embeddings(
  options: { readonly dimensions?: number; readonly usage?: ReportedTokens } = {},
): Behavior {
  return { answer: { kind: 'embeddings', dimensions: 8, ...options }, delivery: {} };
}

/** Sends bytes in chunks, instead of audio: the byte at position n is n modulo 251. */
export function speech(
  options: {
    readonly audioBytes?: number;
    readonly pieceBytes?: number;
    readonly pieceDelayMs?: number;
    readonly contentType?: string;
  } = {},
): Behavior {
  const plain = { audioBytes: 4096, pieceBytes: 1024, pieceDelayMs: 0, contentType: 'audio/mpeg' };
  return { answer: { kind: 'speech', ...plain, ...options }, delivery: {} };
}

export function transcription(text = 'ok', seconds = 3): Behavior {
  return { answer: { kind: 'transcription', text, seconds }, delivery: {} };
}

/** A transparent PNG of 1 pixel. */
const onePixelPng =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk' +
  'YPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';

export function images(
  options: { readonly base64?: string; readonly usage?: ReportedTokens } = {},
): Behavior {
  return { answer: { kind: 'images', base64: onePixelPng, ...options }, delivery: {} };
}
