/** Builders of what the fake upstream says. `deliveries.ts` changes how any of it travels. */

import { brotliCompressSync, constants } from 'node:zlib';
import type {
  Behavior,
  ChatAnswer,
  ChatOptions,
  Encoding,
  ReportedTokens,
  Spoil,
  SseSyntax,
  ToolCall,
} from './behavior.ts';

/** "w1 w2 … wn": n words, which are n completion tokens and by default n text events. */
export function words(count: number): string {
  return Array.from({ length: count }, (_, index) => `w${index + 1}`).join(' ');
}

function chat(answer: Omit<ChatAnswer, 'kind'>): Behavior {
  return { answer: { kind: 'chat', ...answer }, delivery: {} };
}

/** Says a text on chat endpoints; any other endpoint gives its plainest good answer. */
export function chatAnswer(text: string, options: ChatOptions = {}): Behavior {
  return chat({ text, ...options });
}

/** Repeats the text of the last message, which shows whose words ended up in whose answer. */
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

/** One `data:` line of this many bytes that never ends. */
export function hugeEvent(bytes: number): Behavior {
  return { answer: { kind: 'huge-line', bytes }, delivery: {} };
}

/** Changes how a chat answer is sent; throws if a test uses it for another kind of answer. */
function retold(of: Behavior, change: Partial<ChatAnswer>): Behavior {
  if (of.answer.kind !== 'chat') throw new TypeError(`${of.answer.kind} is not a chat answer`);
  return { answer: { ...of.answer, ...change }, delivery: of.delivery };
}

export function withoutDone(of: Behavior = chatAnswer('all said')): Behavior {
  return retold(of, { ending: 'no-done' });
}

export function doneTwice(of: Behavior = chatAnswer('all said')): Behavior {
  return retold(of, { ending: 'done-twice' });
}

export function dataAfterDone(of: Behavior = chatAnswer('all said')): Behavior {
  return retold(of, { ending: 'data-after-done' });
}

export function withoutUsage(of: Behavior = chatAnswer('nobody counted these')): Behavior {
  return retold(of, { usageSent: 'none' });
}

/** Sends the usage object exactly as given, even if it makes no sense. */
export function rawUsage(
  usage: Readonly<Record<string, unknown>>,
  of: Behavior = chatAnswer('odd numbers follow'),
): Behavior {
  return retold(of, { usageSent: usage });
}

export function jsonForStream(of: Behavior = chatAnswer('not a stream')): Behavior {
  return retold(of, { shape: 'always-json' });
}

export function sseForJson(of: Behavior = chatAnswer('not one object')): Behavior {
  return retold(of, { shape: 'always-sse' });
}

export function sseSyntax(syntax: SseSyntax, of: Behavior = chatAnswer(words(5))): Behavior {
  return retold(of, { syntax });
}

function spoilt(afterEvents: number, spoil: Spoil, of: Behavior | undefined): Behavior {
  return retold(of ?? chatAnswer(words(afterEvents + 10)), { spoil: { afterEvents, with: spoil } });
}

/** One event is not valid JSON; the stream then goes on. A whole answer becomes malformed JSON. */
export function malformedSse(afterEvents = 2, of?: Behavior): Behavior {
  return spoilt(afterEvents, 'malformed-json', of);
}

/** A JSON string that holds the first half of an emoji and then its closing quote. */
export function unfinishedCharacter(afterEvents = 2, of?: Behavior): Behavior {
  return spoilt(afterEvents, 'unfinished-character', of);
}

/**
 * Status 200, then an error instead of content, and the end of the answer. 'event' sends it as
 * `event: error`, as Groq does; Anthropic's errors always have that name.
 */
export function errorInside200(
  afterEvents = 2,
  variant: 'data' | 'event' = 'data',
  of?: Behavior,
): Behavior {
  return spoilt(afterEvents, variant === 'data' ? 'error-data' : 'error-event', of);
}

interface RawOptions {
  readonly status?: number;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** By default, event streams and audio are sent chunked and anything else with its length. */
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

/** Recorded bytes, unchanged, in pieces of the wanted size. */
export function replay(bytes: Uint8Array | string, options: ReplayOptions = {}): Behavior {
  const body = typeof bytes === 'string' ? Buffer.from(bytes) : bytes;
  const { piece = 'whole', delayMs = 0 } = options;
  if (piece === 'event by event') return raw(body, options, 'events', delayMs);
  const whole = raw(body, options, 'whole');
  if (piece === 'whole') return { answer: whole.answer, delivery: { delayMs } };
  const pieceBytes = piece === 'byte by byte' ? 1 : piece;
  return { answer: whole.answer, delivery: { pieceBytes, pieceDelayMs: delayMs } };
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

/** A small compressed body that unpacks to `unpackedBytes` spaces, which JSON allows. */
export function compressionBomb(unpackedBytes: number): Behavior {
  const params = { [constants.BROTLI_PARAM_QUALITY]: 4 };
  const packed = brotliCompressSync(Buffer.alloc(unpackedBytes, ' '), { params });
  const encoding: Encoding = 'br';
  return raw(packed, { headers: { 'content-encoding': encoding } }, 'whole');
}

/** An error in the shape of the endpoint that was called. */
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

/** Audio-sized noise in chunks: the byte at position n is n modulo 251. */
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

/** A transparent PNG of one pixel. */
const onePixelPng =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk' +
  'YPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';

export function images(
  options: { readonly base64?: string; readonly usage?: ReportedTokens } = {},
): Behavior {
  return { answer: { kind: 'images', base64: onePixelPng, ...options }, delivery: {} };
}
