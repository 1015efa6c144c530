import { AssertionError, strict as assert } from 'node:assert';
import { errorBytesMax, eventBytesMax, replyBytesMax } from '../core/bounds.ts';
import type { DeadlineWatcher } from '../core/deadlines.ts';
import { GatewayError } from '../core/errors.ts';
import { isValidJson } from '../core/json.ts';
import type { UrlInput } from '../core/request-info.ts';
import { FrameDecoder, isFramed } from '../dialects/bedrock/upstream/frames.ts';
import type {
  Adapter,
  AnswerMetrics,
  MediaTarget,
  ReadResult,
  ReplyIdentity,
  StreamTransform,
  TransformedReply,
  UpstreamFailure,
  UpstreamRequest,
} from '../dialects/dialect.ts';
import { EventStreamReader } from '../dialects/event-stream.ts';
import { MalformedAnswer, malformed, readFailure } from '../dialects/failure.ts';
import type { Offer } from '../route/catalog.ts';
import type { HttpResponse } from './connection/response.ts';
import type { AddressPolicy } from './guard/address-policy.ts';
import type { GuardedFetchOptions, GuardedResult } from './guard/guarded-fetch.ts';
import { type CheckAddress, checkFor } from './guard/pinned-call.ts';
import { connectionFailure, cutFailure, send, throwLocalFailure } from './provider-client.ts';
import type { AnswerRecorder } from './recorder.ts';
import { endOfStream, readAll, silence, TextSource } from './text-source.ts';
import { UpstreamCall } from './upstream-call.ts';

/** Per-attempt context: identity, output cap, abort signal, recorder, and the hold. */
export interface AttemptContext {
  readonly identity: ReplyIdentity;
  readonly tenantId: string;
  /** The output cap to send. Null keeps the client's own cap. */
  readonly outputTokensMax: number | null;
  /** Aborts when the client disconnects. */
  readonly clientSignal: AbortSignal;
  readonly deadlines: DeadlineWatcher;
  /** When the answer of the request must have begun. Infinite once it has begun. */
  openBy: number;
  /** Records the answer for the cache or for idempotent retries. */
  readonly recorder?: AnswerRecorder | undefined;
  /** Continues the client's trace at the provider. Undefined without tracing. */
  readonly traceparent?: string | undefined;
  /** Fetches a URL that a client or provider chose, on behalf of the tenant. */
  fetchGuarded(url: string, options: Omit<GuardedFetchOptions, 'tenantId'>): Promise<GuardedResult>;
  /**
   * Downloads the images of the request and returns a `data:` URL for each http URL. Other attempts
   * get the same images, and their memory is reserved until the request ends. Throws 400, 503.
   */
  inlineImages(images: readonly UrlInput[]): Promise<ReadonlyMap<string, string>>;
  /** Sets the parameters that this offer can't express. An empty list clears them. */
  reportDropped(parameters: readonly string[]): void;
  /** Reserves memory for a long answer in the budget of all requests. Throws 503. */
  reserveMemory(bytes: number): void;
  /** Releases the memory reserved so far. */
  releaseMemory(): void;
  /** Adds credits to the request's hold. Returns false if there are none left. */
  extendHold(credits: number): Promise<boolean>;
  /** Returns the credits that the request may cost in total, without a query up to `atLeast`. */
  spendableCredits(atLeast: number): Promise<number>;
  /** Checks a URL that the tenant chose. */
  checkAddress: CheckAddress;
  /** The policy that `checkAddress` applies, for URLs that a provider fetches. */
  readonly addressPolicy: AddressPolicy;
}

/** How much of an answer's opening is held back before its first output. */
const openingLengthMax = 16 * 1024;

/** The limit for text before the opening, where OpenAI repeats the instructions and tools twice. */
const prefaceLengthMax = 2 * eventBytesMax;

/** A stream whose first output has arrived. After this, no other offer is tried. */
export interface OpenStream {
  readonly kind: 'stream';
  readonly transform: StreamTransform;
  readonly reader: EventStreamReader;
  readonly source: TextSource;
  readonly upstreamCall: UpstreamCall;
  /** The first text for the client. */
  readonly opening: string;
  /** True if the upstream has already closed its stream. */
  readonly ended: boolean;
  /** Called when the upstream's stream has ended. Opens the next stream or returns closing text. */
  readonly openContinuation?: () => Promise<Continuation>;
}

/** An answer in bytes whose first chunk has arrived. After this, no other offer is tried. */
export interface OpenBytes {
  readonly kind: 'bytes';
  readonly contentType: string;
  readonly contentLength: number | null;
  readonly first: Uint8Array;
  /**
   * Returns the bytes after `first`. Rejects when the connection breaks or the call is canceled.
   */
  next(): Promise<Uint8Array | undefined>;
  readonly upstreamCall: UpstreamCall;
  /** Here, `outputCharacters` counts the bytes sent to the client. */
  readonly metrics: AnswerMetrics & { outputCharacters: number };
}

/** What follows when an upstream's stream has ended. */
export type Continuation = AttemptResult | { readonly kind: 'closing'; readonly text: string };

interface FullReply<Reply> {
  readonly kind: 'reply';
  readonly reply: Reply;
}

interface Failed {
  readonly kind: 'failed';
  readonly failure: UpstreamFailure;
}

export type AttemptResult = OpenStream | OpenBytes | FullReply<TransformedReply> | Failed;

interface AttemptOptions<Reply> {
  readonly offer: Offer;
  readonly context: AttemptContext;
  readonly request: UpstreamRequest;
  /** Reads a non-streaming answer. */
  readReply(text: string): ReadResult<Reply>;
  /** Reads a streaming answer. Set if the request is for a stream. */
  readonly stream?: StreamAdapter | undefined;
  /** Records the answer. Undefined if it isn't recorded. */
  readonly recorder?: AnswerRecorder | undefined;
  /** Overrides the provider's timeouts for the full attempt. */
  readonly attemptMs?: number | undefined;
}

type StreamAdapter = Pick<Adapter, 'transformStream' | 'streamReply'>;

/** The result of an attempt that can return a stream. */
type StreamedResult<Reply> = OpenStream | FullReply<Reply> | Failed;

/** Sends one request to one offer and reads the answer up to its first output. */
export async function attempt<Reply>(
  options: AttemptOptions<Reply>,
): Promise<StreamedResult<Reply>> {
  const { offer, context, attemptMs } = options;
  const { provider } = offer;
  const idleMs = attemptMs ?? provider.idleTimeoutMs;
  const upstreamCall = new UpstreamCall(context.deadlines, context.clientSignal, attemptMs);
  upstreamCall.mustOpenBy(context.openBy);
  upstreamCall.expectDataWithin(attemptMs ?? provider.timeoutMs);
  let source: TextSource | undefined;
  try {
    const request = withTraceparent(options.request, context);
    const response = await send(provider, request, upstreamCall, checkFor(offer, context));
    if (context.recorder && response.ok && isNoStore(response)) context.recorder.forbidSharing();
    if (isShortReply(response, options)) {
      upstreamCall.expectDataWithin(idleMs);
      const text = await response.text(() => upstreamCall.expectDataWithin(idleMs));
      options.recorder?.add(text);
      upstreamCall.release();
      return toResult(options.readReply(text));
    }
    if (!response.body) {
      upstreamCall.cancel();
      return failed(malformed('The provider sent an empty response.'));
    }
    const decoder = response.ok && isFramed(response) ? new FrameDecoder() : new TextDecoder();
    source = new TextSource(response.body, upstreamCall, { idleMs }, options.recorder, decoder);
    const result = await readResponse(response, source, upstreamCall, options);
    if (result.kind === 'stream') {
      context.openBy = Number.POSITIVE_INFINITY;
      upstreamCall.opened();
      return result;
    }
    source.close();
    if (result.kind === 'failed') upstreamCall.cancel();
    else upstreamCall.release();
    return result;
  } catch (error) {
    source?.close();
    return failed(failureFrom(error, upstreamCall));
  }
}

/** Returns the failure of a call. Rethrows errors that aren't the provider's fault. */
export function failureFrom(error: unknown, upstreamCall: UpstreamCall): UpstreamFailure {
  upstreamCall.cancel();
  const isReported = error instanceof GatewayError;
  if (isReported ? error.symbol !== 'upstream_error' : isProgrammingError(error)) throw error;
  throwLocalFailure(error, upstreamCall.isShuttingDown);
  if (isReported || error instanceof MalformedAnswer) return malformed(error.message);
  const failure = connectionFailure(error, upstreamCall.timedOut);
  return upstreamCall.isAbandoned ? { ...failure, isAbandoned: true } : failure;
}

/** Recognizes bugs, which must not be reported as a provider failure. */
export function isProgrammingError(error: unknown): boolean {
  const errorTypes = [ReferenceError, RangeError, AssertionError];
  if (errorTypes.some((errorType) => error instanceof errorType)) return true;
  return error instanceof TypeError && !('code' in error);
}

/** Longer answers are read in chunks, to reserve memory for them. */
const shortBytesMax = 1024 * 1024;

/** Returns whether the response isn't a stream and is short enough to be read at once. */
function isShortReply(
  response: HttpResponse,
  options: { readonly stream?: StreamAdapter | undefined },
): boolean {
  const { headers, ok } = response;
  const length = headers.get('content-length');
  return (
    ok &&
    !options.stream &&
    length !== null &&
    Number(length) <= shortBytesMax &&
    // In a chunked response, the content-length is meaningless.
    headers.get('transfer-encoding') === null &&
    isUncompressed(response) &&
    !isEventStream(response) &&
    !isFramed(response)
  );
}

/** Lists the encodings, because some servers put a character set into `content-encoding`. */
const compressedPattern = /\b(?:gzip|deflate|compress|br|zstd)\b/i;

export function isUncompressed({ headers }: HttpResponse): boolean {
  return !compressedPattern.test(headers.get('content-encoding') ?? '');
}

function isNoStore({ headers }: HttpResponse): boolean {
  return /\bno-store\b/i.test(headers.get('cache-control') ?? '');
}

/** Ignores case, as HTTP does. */
export function isEventStream({ headers }: HttpResponse): boolean {
  return /^text\/event-stream/i.test(headers.get('content-type') ?? '');
}

function toResult<Reply>(read: ReadResult<Reply>): FullReply<Reply> | Failed {
  return read.ok ? { kind: 'reply', reply: read.value } : failed(read.failure);
}

async function readResponse<Reply>(
  response: HttpResponse,
  source: TextSource,
  upstreamCall: UpstreamCall,
  options: AttemptOptions<Reply>,
): Promise<StreamedResult<Reply>> {
  // Any 2xx status is a success, because some servers respond to every POST with 201.
  if (!response.ok) {
    // If the text isn't readable, the status still distinguishes a rate limit from a bad request.
    const text = (isUncompressed(response) && (await readAll(source, errorBytesMax))) || '';
    return failed(readFailure(response.status, text, response.headers, Date.now()));
  }
  if (!isUncompressed(response)) {
    return failed(malformed('The provider sent a compressed response, which was not requested.'));
  }
  const { stream } = options;
  const isStream = isEventStream(response) || isFramed(response);
  const start = stream && !isStream ? await readStart(source) : '';
  if (stream && (isStream || eventStart.test(start))) {
    const transform = stream.transformStream(options.context.identity);
    return readToFirstOutput(source, upstreamCall, transform, start);
  }
  const rest = await readAll(source, replyBytesMax, (bytes) =>
    options.context.reserveMemory(bytes),
  );
  if (rest === undefined)
    return failed(malformed('The provider sent a response that is too long.'));
  const text = start + rest;
  const cut = cutFailure(options.offer.provider, response);
  if (cut && !isValidJson(text)) return failed(cut);
  // Some servers declare every answer as a stream.
  if (!stream && !(isStream && eventStart.test(text))) return toResult(options.readReply(text));
  const streamed = stream?.streamReply(text, options.context.identity);
  if (!streamed?.ok) return unexpectedFormat(streamed ?? options.readReply(text), response);
  options.recorder?.markFull();
  const reader = new EventStreamReader();
  return { kind: 'stream', ...streamed.value, reader, source, upstreamCall, ended: true };
}

/** Matches the beginning of an event stream, regardless of its declared content type. */
const eventStart = /^\s*(?:data|event|id|retry)?:/;

/** Reads enough of an answer for `eventStart` to match. */
async function readStart(source: TextSource): Promise<string> {
  let start = '';
  while (start.trimStart().length < 'retry:'.length && start.length < openingLengthMax) {
    const piece = await source.next();
    if (piece === endOfStream) break;
    if (piece !== silence) start += piece;
  }
  return start;
}

/**
 * Reads a stream until its first output or its failure. Events that only open the answer are held
 * back: while the client hasn't received any of them, another provider can still be tried.
 */
async function readToFirstOutput(
  source: TextSource,
  upstreamCall: UpstreamCall,
  transform: StreamTransform,
  start: string,
): Promise<OpenStream | Failed> {
  const reader = new EventStreamReader();
  let opening = '';
  let ended = false;
  let first = start;
  while (
    !hasOutput(transform) &&
    !ended &&
    !transform.ended &&
    opening.length < openingMax(transform)
  ) {
    const piece = first || (await source.next());
    first = '';
    if (piece === silence) {
      // The model may reason for a long time after its opening, so send the opening to the client.
      if (transform.started) break;
      continue;
    }
    const messages = piece === endOfStream ? reader.end() : reader.push(piece);
    ended = piece === endOfStream;
    const { length } = opening;
    for (const message of messages) opening += transform.push(message);
    source.recordProgress(messages.length, false, opening.length > length);
    const { failure } = transform.metrics;
    if (failure && !hasOutput(transform)) return failed(failure);
  }
  if (!transform.started || ((ended || transform.ended) && !hasOutput(transform))) {
    return failed(malformed('The provider ended its stream without any output.'));
  }
  return { kind: 'stream', transform, reader, source, upstreamCall, opening, ended };
}

function openingMax({ started }: StreamTransform): number {
  return started ? openingLengthMax : prefaceLengthMax;
}

function hasOutput({ started, finished, metrics }: StreamTransform): boolean {
  return started && (finished || metrics.outputCharacters > 0);
}

/** Returns the failure for a response in an unrequested format, which may contain an error. */
function unexpectedFormat(reply: ReadResult<unknown>, response: HttpResponse): Failed {
  if (!reply.ok && reply.failure.kind !== 'malformed') return failed(reply.failure);
  const type = response.headers.get('content-type')?.split(';')[0] ?? 'no content type';
  return failed(malformed(`The provider's response has an unexpected content type (${type}).`));
}

export function failed(failure: UpstreamFailure): Failed {
  return { kind: 'failed', failure };
}

/** Adds the `traceparent` header to a request. */
export function withTraceparent(
  request: UpstreamRequest,
  { traceparent }: AttemptContext,
): UpstreamRequest {
  if (traceparent === undefined) return request;
  return { ...request, headers: { ...request.headers, traceparent } };
}

/** A request whose answer is read completely before any of it is used. */
interface FullRequest<Value> {
  readonly request: UpstreamRequest;
  read(text: string): ReadResult<Value>;
  /** Overrides the provider's timeouts for the full attempt. */
  readonly attemptMs?: number;
}

/** The metrics of an answer that reports no usage, or reports it elsewhere. */
export const noMetrics: AnswerMetrics = {
  usage: undefined,
  finishReason: undefined,
  outputCharacters: 0,
  failure: undefined,
};

/** Sends one request and reads its full answer. */
export async function attemptFull<Value>(
  { request, read, attemptMs }: FullRequest<Value>,
  offer: Offer,
  context: AttemptContext,
): Promise<ReadResult<Value>> {
  const result = await attempt({ offer, context, request, readReply: read, attemptMs });
  if (result.kind === 'failed') return { ok: false, failure: result.failure };
  assert(result.kind === 'reply', 'The attempt returned a stream, but none was requested.');
  return { ok: true, value: result.reply };
}

/** Returns the target of a media request to an offer. */
export function mediaTargetFor({ upstreamModel, quirks, model, ownAccount }: Offer): MediaTarget {
  const { output_modalities: outputModalities } = model;
  return { upstreamModel, quirks, outputModalities, isOwnAccount: ownAccount !== null };
}
