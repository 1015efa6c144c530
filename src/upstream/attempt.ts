import { AssertionError, strict as assert } from 'node:assert';
import { errorBytesMax, eventBytesMax, replyBytesMax } from '../core/bounds.ts';
import type { DeadlineWatcher } from '../core/deadlines.ts';
import { GatewayError } from '../core/errors.ts';
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
import { EventStreamReader } from '../dialects/events.ts';
import { MalformedAnswer, malformed, readFailure } from '../dialects/failure.ts';
import type { Offer } from '../route/catalog.ts';
import type { OpenBytes } from './byte-stream.ts';
import type { HttpResponse } from './connection/response.ts';
import type { AddressPolicy } from './guard/address-policy.ts';
import type { GuardedFetch } from './guard/guarded-fetch.ts';
import { type CheckAddress, checkFor } from './guard/pinned-call.ts';
import { connectionFailure, send, throwLocalFailure } from './provider-client.ts';
import type { AnswerRecorder } from './recorder.ts';
import { endOfStream, readAll, silence, TextSource, UpstreamCall } from './upstream-call.ts';

/** What one try at one offer needs besides the request itself. */
export interface AttemptContext {
  readonly identity: ReplyIdentity;
  /** The output cap to send; null leaves the client's own. */
  readonly outputTokensMax: number | null;
  /** Aborts when the client leaves. */
  readonly client: AbortSignal;
  readonly deadlines: DeadlineWatcher;
  /** Records the answer, so that it can be given again. */
  readonly recorder?: AnswerRecorder | undefined;
  /** Continues the client's trace at the provider; undefined when nobody traces. */
  readonly traceparent?: string | undefined;
  readonly fetchGuarded: GuardedFetch;
  /** Called with the parameters that this offer cannot express; an empty list takes that back. */
  reportDropped(parameters: readonly string[]): void;
  /**
   * Claims room for this many more bytes of a long answer, in the memory all requests share. 503
   */
  reserveMemory(bytes: number): void;
  /** Gives back the room claimed so far: what it was for has been read, or is of no use. */
  releaseMemory(): void;
  /** Sets more credits aside for the request; false when there are no more. */
  extendHold(credits: number): Promise<boolean>;
  /**
   * What the request may cost in all. Asks the store unless at least `enough` is known to be there.
   */
  spendableCredits(atLeast: number): Promise<number>;
  /** Checks addresses that tenants chose. */
  readonly checkAddress: CheckAddress;
  /** The policy of that check, for addresses that a provider calls instead of us. */
  readonly addressPolicy: AddressPolicy;
}

/** How much text that only opens an answer is held back: an opening is one small chunk. */
const openingLengthMax = 16 * 1024;

/** Before an answer begins, OpenAI repeats the request's instructions and tools, twice. */
const prefaceLengthMax = 2 * eventBytesMax;

/** A stream whose first words are in hand; from here on there is no other attempt. */
export interface OpenStream {
  readonly kind: 'stream';
  readonly transform: StreamTransform;
  readonly reader: EventStreamReader;
  readonly source: TextSource;
  readonly upstreamCall: UpstreamCall;
  /** The text that the client sees first. */
  readonly opening: string;
  /** Whether the upstream closed before the first words were handed over. */
  readonly ended: boolean;
  /**
   * Called when the upstream has ended: opens a stream that follows it, or gives the last words.
   */
  readonly openContinuation?: () => Promise<AttemptResult | string>;
}

interface FullReply {
  readonly kind: 'reply';
  readonly reply: TransformedReply;
}

interface Failed {
  readonly kind: 'failed';
  readonly failure: UpstreamFailure;
}

export type AttemptResult = OpenStream | OpenBytes | FullReply | Failed;

interface AttemptOptions {
  readonly offer: Offer;
  readonly context: AttemptContext;
  readonly request: UpstreamRequest;
  readonly adapter: Omit<Adapter, 'write'>;
  readonly stream: boolean;
  /** Records the answer; not always the tape of the link. */
  readonly recorder?: AnswerRecorder | undefined;
  /** Time for the whole attempt, whatever the provider's own timeouts say. */
  readonly attemptMs?: number | undefined;
}

/** One try at one offer, up to the point where the client could see something of it. */
export async function attempt(options: AttemptOptions): Promise<AttemptResult> {
  const { offer, context, attemptMs } = options;
  const { provider } = offer;
  const idleMs = attemptMs ?? provider.idleTimeoutMs;
  const upstreamCall = new UpstreamCall(context.deadlines, context.client, attemptMs);
  upstreamCall.expectDataWithin(attemptMs ?? provider.timeoutMs);
  let source: TextSource | undefined;
  try {
    const request = withTraceparent(options.request, context);
    const response = await send(
      provider,
      request,
      upstreamCall,
      checkFor(offer, context.checkAddress),
    );
    if (isShortReply(response, options)) {
      upstreamCall.expectDataWithin(idleMs);
      const text = await response.text(() => upstreamCall.expectDataWithin(idleMs));
      options.recorder?.add(text);
      upstreamCall.release();
      return toReply(text, options);
    }
    if (!response.body) {
      upstreamCall.cancel();
      return failed(malformed('The provider sent an empty answer.'));
    }
    const decoder = response.ok && isFramed(response) ? new FrameDecoder() : new TextDecoder();
    source = new TextSource(response.body, upstreamCall, { idleMs }, options.recorder, decoder);
    const result = await readResponse(response, source, upstreamCall, options);
    if (result.kind === 'stream') return result;
    source.close();
    if (result.kind === 'failed') upstreamCall.cancel();
    else upstreamCall.release();
    return result;
  } catch (error) {
    source?.close();
    return failed(failureFrom(error, upstreamCall));
  }
}

/** Why a provider did not answer. Throws again what was not the provider's fault but ours. */
export function failureFrom(error: unknown, upstreamCall: UpstreamCall): UpstreamFailure {
  upstreamCall.cancel();
  const isReported = error instanceof GatewayError;
  if (isReported ? error.symbol !== 'upstream_error' : isProgrammingError(error)) throw error;
  throwLocalFailure(error, upstreamCall.isShuttingDown);
  return isReported || error instanceof MalformedAnswer
    ? malformed(error.message)
    : connectionFailure(error, upstreamCall.timedOut);
}

/** A mistake of this program must not be reported as a provider that cannot be reached. */
export function isProgrammingError(error: unknown): boolean {
  const errorTypes = [ReferenceError, RangeError, AssertionError];
  if (errorTypes.some((errorType) => error instanceof errorType)) return true;
  return error instanceof TypeError && !('code' in error);
}

/** Longer answers are read piece by piece: all of them together may not use up our memory. */
const shortBytesMax = 1024 * 1024;

/** A whole answer of a known length that is read in one go. */
function isShortReply(response: HttpResponse, options: AttemptOptions): boolean {
  const { headers, ok } = response;
  const length = headers.get('content-length');
  return (
    ok &&
    !options.stream &&
    length !== null &&
    Number(length) <= shortBytesMax &&
    // Chunks may be of any length together, whatever length is told beside them.
    headers.get('transfer-encoding') === null &&
    isPlain(response) &&
    !isEventStream(response) &&
    !isFramed(response)
  );
}

/** Some servers name a character set in this header, which is no compression. */
const compressedPattern = /\b(?:gzip|deflate|compress|br|zstd)\b/i;

export function isPlain({ headers }: HttpResponse): boolean {
  return !compressedPattern.test(headers.get('content-encoding') ?? '');
}

/** HTTP does not care how types are capitalised, and not every server writes them small. */
export function isEventStream({ headers }: HttpResponse): boolean {
  return /^text\/event-stream/i.test(headers.get('content-type') ?? '');
}

function toReply(text: string, options: AttemptOptions): AttemptResult {
  const reply = options.adapter.transformReply(text, options.context.identity);
  return reply.ok ? { kind: 'reply', reply: reply.value } : failed(reply.failure);
}

async function readResponse(
  response: HttpResponse,
  source: TextSource,
  upstreamCall: UpstreamCall,
  options: AttemptOptions,
): Promise<AttemptResult> {
  // Not only 200: some servers answer every POST with 201.
  if (!response.ok) {
    // The status alone still tells a rate limit from a bad request.
    const text = (isPlain(response) && (await readAll(source, errorBytesMax))) || '';
    return failed(readFailure(response.status, text, response.headers, Date.now()));
  }
  if (!isPlain(response)) {
    return failed(malformed('The provider sent a compressed answer that was not asked for.'));
  }
  const isStream = isEventStream(response) || isFramed(response);
  const start = options.stream && !isStream ? await readStart(source) : '';
  if (options.stream && (isStream || eventStart.test(start))) {
    return readToFirstOutput(source, upstreamCall, options, start);
  }
  const rest = await readAll(source, replyBytesMax, (bytes) =>
    options.context.reserveMemory(bytes),
  );
  if (rest === undefined) return failed(malformed('The provider sent an answer that is too long.'));
  const text = start + rest;
  // Some servers call every answer a stream, whatever it is.
  if (!options.stream && !(isStream && eventStart.test(text))) return toReply(text, options);
  const { adapter, recorder } = options;
  const { identity } = options.context;
  const streamed = options.stream ? adapter.streamReply(text, identity) : undefined;
  if (!streamed?.ok) {
    return unexpectedFormat(streamed ?? adapter.transformReply(text, identity), response);
  }
  recorder?.markFull();
  const reader = new EventStreamReader();
  return { kind: 'stream', ...streamed.value, reader, source, upstreamCall, ended: true };
}

/** How a stream of events begins, whatever type its server gives it. */
const eventStart = /^\s*(?:data|event|id|retry)?:/;

/** Enough of an answer for `eventStart` to tell what it is. */
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
 * Reads on until the answer has its first words, or failed before it had. Chunks that only open
 * the answer are held back: as long as nobody saw them, another provider can still take over.
 */
async function readToFirstOutput(
  source: TextSource,
  upstreamCall: UpstreamCall,
  options: AttemptOptions,
  start: string,
): Promise<AttemptResult> {
  const transform = options.adapter.transformStream(options.context.identity);
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
      // The model thinks for long after its opening: now the client should hear from us.
      if (transform.started) break;
      continue;
    }
    const messages = piece === endOfStream ? reader.end() : reader.push(piece);
    ended = piece === endOfStream;
    const { length } = opening;
    for (const message of messages) opening += transform.push(message);
    source.recordProgress(opening.length > length);
    const { failure } = transform.metrics;
    if (failure && !hasOutput(transform)) return failed(failure);
  }
  if (!transform.started || ((ended || transform.ended) && !hasOutput(transform))) {
    return failed(malformed('The provider ended its stream without an answer.'));
  }
  return { kind: 'stream', transform, reader, source, upstreamCall, opening, ended };
}

function openingMax({ started }: StreamTransform): number {
  return started ? openingLengthMax : prefaceLengthMax;
}

function hasOutput({ started, finished, metrics }: StreamTransform): boolean {
  return started && (finished || metrics.outputCharacters > 0);
}

/** An answer in a form that was not asked for and cannot be used; perhaps it says why. */
function unexpectedFormat(reply: ReadResult<unknown>, response: HttpResponse): AttemptResult {
  if (!reply.ok && reply.failure.kind !== 'malformed') return failed(reply.failure);
  const type = response.headers.get('content-type')?.split(';')[0] ?? 'no content type';
  return failed(malformed(`The provider answered with ${type}, which was not asked for.`));
}

export function failed(failure: UpstreamFailure): Failed {
  return { kind: 'failed', failure };
}

/** The same request, telling the provider which trace it belongs to. */
export function withTraceparent(
  request: UpstreamRequest,
  { traceparent }: AttemptContext,
): UpstreamRequest {
  if (traceparent === undefined) return request;
  return { ...request, headers: { ...request.headers, traceparent } };
}

/** A question to an offer whose answer is read as a whole before any of it is told. */
interface FullRequest<Value> {
  readonly request: UpstreamRequest;
  read(text: string): ReadResult<Value>;
  /** Time for the whole attempt, whatever the provider's own timeouts say. */
  readonly attemptMs?: number;
}

/** For an answer that reports its usage in fields of its own, or not at all. */
export const noMetrics: AnswerMetrics = {
  usage: undefined,
  finishReason: undefined,
  outputCharacters: 0,
  failure: undefined,
};

/** Asks once; returns what was read in the answer, or why there is nothing. */
export async function attemptFull<Value>(
  { request, read, attemptMs }: FullRequest<Value>,
  offer: Offer,
  context: AttemptContext,
): Promise<ReadResult<Value>> {
  let found: ReadResult<Value> | undefined;
  const result = await attempt({
    offer,
    context,
    request,
    adapter: {
      transformStream: () => assert.fail('Nobody asked for a stream.'),
      streamReply: () => assert.fail('Nobody asked for a stream.'),
      transformReply(text) {
        found = read(text);
        return found.ok ? { ok: true, value: { metrics: noMetrics, write: () => '' } } : found;
      },
    },
    stream: false,
    attemptMs,
  });
  if (result.kind === 'failed') return { ok: false, failure: result.failure };
  assert(found, 'An answer was read and is not there.');
  return found;
}

/** What is asked of an offer, and whose account pays for it. */
export function mediaTargetFor({ upstreamModel, quirks, model, own }: Offer): MediaTarget {
  const { output_modalities: outputModalities } = model;
  return { upstreamModel, quirks, outputModalities, isOwnAccount: own !== null };
}
