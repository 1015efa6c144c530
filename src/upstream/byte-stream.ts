import { contentlessBytesMax, errorBytesMax } from '../core/bounds.ts';
import { asGatewayError, GatewayError, shuttingDown } from '../core/errors.ts';
import type {
  AnswerMetrics,
  ReadResult,
  SettledUsage,
  UpstreamFailure,
  UpstreamRequest,
} from '../dialects/dialect.ts';
import { EventStreamReader } from '../dialects/events.ts';
import {
  failureInside,
  MalformedAnswer,
  malformed,
  readAnswer,
  readFailure,
} from '../dialects/failure.ts';
import type { AudioEvents } from '../dialects/media.ts';
import type { Offer } from '../route/catalog.ts';
import {
  type AttemptContext,
  type AttemptResult,
  failed,
  failureFrom,
  isEventStream,
  isPlain,
  noMetrics,
  withTraceparent,
} from './attempt.ts';
import type { HttpResponse, ResponseBody, ResponseHeaders } from './connection/response.ts';
import { checkFor } from './guard/pinned-call.ts';
import { send } from './provider-client.ts';
import { interrupted, type Settle, type StreamOutcome } from './stream-answer.ts';
import { readAll, TextSource, UpstreamCall } from './upstream-call.ts';

/** Bytes piece by piece, none of them empty; undefined when there are no more. */
interface BytePieces {
  /** Rejects when the connection breaks or the line hangs up. */
  next(): Promise<Uint8Array | undefined>;
}

/** An upstream's answer as bytes, read only when somebody asks for the next piece. */
export class ByteSource implements BytePieces {
  readonly #body: ResponseBody;
  readonly #upstreamCall: UpstreamCall;
  readonly #idleMs: number;
  #remainingBytes: number;

  constructor(
    body: ResponseBody,
    upstreamCall: UpstreamCall,
    idleMs: number,
    /** The length of the answer; null when the upstream did not say. */
    bytes: number | null,
  ) {
    this.#body = body;
    this.#upstreamCall = upstreamCall;
    this.#idleMs = idleMs;
    this.#remainingBytes = bytes ?? 0;
  }

  async next(): Promise<Uint8Array | undefined> {
    for (;;) {
      this.#upstreamCall.expectDataWithin(this.#idleMs);
      const bytes = await new Promise<Uint8Array | undefined>(this.#read);
      this.#upstreamCall.suspendTimeout();
      if (!bytes && this.#remainingBytes > 0) {
        throw new Error('The answer is shorter than it was to be.');
      }
      if (bytes?.length === 0) continue;
      this.#remainingBytes -= bytes?.length ?? 0;
      return bytes;
    }
  }

  readonly #read: ResponseBody['read'] = (onBytes, onError) => this.#body.read(onBytes, onError);
}

/** A question whose answer goes to the client as it comes. */
interface BytesRequest {
  readonly request: UpstreamRequest;
  /** The content type that the client is told, judged by the first bytes. */
  readonly contentTypeFor: (first: Uint8Array) => string;
  /** For answers that come as events. */
  readonly openEvents: (() => AudioEvents) | null;
}

/** One try, up to the point where the first bytes are in hand. */
export async function attemptBytes(
  bytesRequest: BytesRequest,
  offer: Offer,
  context: AttemptContext,
): Promise<AttemptResult> {
  const { provider } = offer;
  const upstreamCall = new UpstreamCall(context.deadlines, context.client);
  upstreamCall.expectDataWithin(provider.timeoutMs);
  try {
    const request = withTraceparent(bytesRequest.request, context);
    const response = await send(
      provider,
      request,
      upstreamCall,
      checkFor(offer, context.checkAddress),
    );
    const peer = { upstreamCall, idleMs: provider.idleTimeoutMs };
    const result = await open(response, bytesRequest, peer);
    if (result.kind === 'failed') upstreamCall.cancel();
    return result;
  } catch (error) {
    return failed(failureFrom(error, upstreamCall));
  }
}

/** The connection that the answer comes over, and how long it may be silent. */
interface Peer {
  readonly upstreamCall: UpstreamCall;
  readonly idleMs: number;
}

/** The text at the beginning of an answer that is no audio. */
async function readText({ body }: HttpResponse, { upstreamCall, idleMs }: Peer): Promise<string> {
  if (!body) return '';
  const source = new TextSource(body, upstreamCall, { idleMs });
  try {
    return (await readAll(source, errorBytesMax)) ?? '';
  } finally {
    source.close();
  }
}

const audio = /^(?:audio\/|application\/ogg|(?:application|binary)\/octet-stream)/i;

async function open(
  response: HttpResponse,
  bytesRequest: BytesRequest,
  peer: Peer,
): Promise<AttemptResult> {
  const { ok, status, headers, body } = response;
  if (!ok) {
    const text = isPlain(response) ? await readText(response, peer) : '';
    return failed(readFailure(status, text, headers, Date.now()));
  }
  if (!isPlain(response)) {
    return failed(malformed('The provider sent a compressed answer that was not asked for.'));
  }
  const type = headers.get('content-type') ?? '';
  const events = isEventStream(response) ? bytesRequest.openEvents?.() : undefined;
  if (type !== '' && !audio.test(type) && !events) {
    return failed(notAudioFailure(type, await readText(response, peer)));
  }
  if (!body) return failed(malformed('The provider sent an empty answer.'));
  const length = events ? null : contentLengthOf(headers);
  const source = new ByteSource(body, peer.upstreamCall, peer.idleMs, length);
  const pieces: BytePieces = events ? new EventPieces(source, events) : source;
  const first = await pieces.next();
  if (!first) return failed(malformed('The provider ended its answer before any audio.'));
  return {
    kind: 'bytes',
    contentType: bytesRequest.contentTypeFor(first),
    contentLength: length,
    first,
    next: () => pieces.next(),
    upstreamCall: peer.upstreamCall,
    metrics: metricsFrom(events),
  };
}

function contentLengthOf(headers: ResponseHeaders): number | null {
  const length = headers.get('content-length');
  return length !== null && /^\d{1,15}$/.test(length) ? Number(length) : null;
}

/** An answer that is no audio; perhaps it says why. */
function notAudioFailure(type: string, text: string): UpstreamFailure {
  const [plain = ''] = type.split(';');
  const unexpected = malformed(`The provider answered with ${plain}, which was not asked for.`);
  const read = readAnswer<never>(text, (body) => ({
    ok: false,
    failure: failureInside(body) ?? unexpected,
  }));
  return read.ok || read.failure.kind === 'malformed' ? unexpected : read.failure;
}

/** The usage is known only when the last event was read. */
function metricsFrom(events: AudioEvents | undefined): OpenBytes['metrics'] {
  return {
    ...noMetrics,
    get usage() {
      return events?.usage;
    },
  };
}

/** The bytes that events carry. */
class EventPieces implements BytePieces {
  readonly #source: ByteSource;
  readonly #events: AudioEvents;
  readonly #reader = new EventStreamReader();
  readonly #decoder = new TextDecoder();
  #pending: Uint8Array[] = [];
  /** Bytes that have come since the last audio. */
  #bytesWithoutAudio = 0;

  constructor(source: ByteSource, events: AudioEvents) {
    this.#source = source;
    this.#events = events;
  }

  async next(): Promise<Uint8Array | undefined> {
    for (;;) {
      const pending = this.#pending.shift();
      if (pending) return pending;
      if (this.#events.finished) return undefined;
      const chunk = await this.#source.next();
      const text = this.#decoder.decode(chunk ?? new Uint8Array(), { stream: chunk !== undefined });
      const messages = this.#reader.push(text);
      if (!chunk) messages.push(...this.#reader.end());
      this.#bytesWithoutAudio += chunk?.length ?? 0;
      for (const message of messages) this.#take(this.#events.push(message));
      if (this.#bytesWithoutAudio > contentlessBytesMax) {
        throw new MalformedAnswer(`${contentlessBytesMax} bytes without a sound`);
      }
      if (!chunk && !this.#events.finished) throw interruptedError('before its last event');
    }
  }

  #take(audio: ReadResult<Uint8Array | undefined>): void {
    if (!audio.ok) throw interruptedError(`with ${audio.failure.message}`);
    if (!audio.value?.length) return;
    this.#pending.push(audio.value);
    this.#bytesWithoutAudio = 0;
  }
}

/** The error of an answer that ended before it was whole. */
function interruptedError(detail: string): Error {
  return new Error(`The provider broke off ${detail}.`);
}

/** An answer of bytes whose first ones are in hand; from here on there is no other attempt. */
export interface OpenBytes {
  readonly kind: 'bytes';
  readonly contentType: string;
  readonly contentLength: number | null;
  readonly first: Uint8Array;
  /** The bytes after the first; rejects when the connection breaks or the line hangs up. */
  next(): Promise<Uint8Array | undefined>;
  readonly upstreamCall: UpstreamCall;
  /** `outputCharacters` counts bytes here: those that the client was given. */
  readonly metrics: AnswerMetrics & { outputCharacters: number };
}

/**
 * Bytes on their way to the client, one byte behind the upstream: the last one goes out only when
 * the answer has been settled, so that no client ever holds a finished answer without a bill.
 */
export class BytesAnswer implements AsyncIterableIterator<Uint8Array> {
  readonly #bytes: OpenBytes;
  readonly #settle: Settle;
  /** Bytes that have come and not gone out yet: after the first piece, one byte. */
  #buffered: Uint8Array | undefined;
  #broken: GatewayError | undefined;
  #settled: Promise<SettledUsage | GatewayError> | undefined;

  constructor(bytes: OpenBytes, settle: Settle) {
    this.#bytes = bytes;
    this.#settle = settle;
    this.#buffered = bytes.first;
  }

  get contentType(): string {
    return this.#bytes.contentType;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Rejects after the last byte of a broken answer: bytes have no other way to tell a failure. */
  async next(): Promise<IteratorResult<Uint8Array>> {
    if (this.#broken) throw this.#broken;
    const buffered = this.#buffered;
    if (!buffered) return { done: true, value: undefined };
    if (buffered.length > 1) return this.#allButLast(buffered);
    const more = await this.#readMore(buffered);
    if (more) return this.#allButLast(Buffer.concat([buffered, more]));
    this.#buffered = undefined;
    if (!this.#broken) {
      const settled = await this.#end({ kind: 'complete' });
      if (settled instanceof GatewayError) throw settled;
      this.#bytes.upstreamCall.release();
    }
    return { done: false, value: buffered };
  }

  /** The client took everything, or it left; if it left, nothing was settled yet. */
  async return(): Promise<IteratorResult<Uint8Array>> {
    this.#buffered = undefined;
    this.#bytes.upstreamCall.cancel();
    await this.#end({ kind: 'client_disconnected' });
    return { done: true, value: undefined };
  }

  #allButLast(piece: Uint8Array): IteratorResult<Uint8Array> {
    const last = piece.length - 1;
    this.#buffered = piece.subarray(last);
    this.#bytes.metrics.outputCharacters += last;
    return { done: false, value: piece.subarray(0, last) };
  }

  /** The bytes after the held one, which goes out too when the upstream ends or breaks here. */
  async #readMore(buffered: Uint8Array): Promise<Uint8Array | undefined> {
    const { metrics, upstreamCall } = this.#bytes;
    try {
      const more = await this.#bytes.next();
      if (!more) metrics.outputCharacters += buffered.length;
      return more;
    } catch (cause) {
      const error = upstreamCall.isShuttingDown ? shuttingDown() : interrupted(cause);
      this.#broken = error;
      upstreamCall.cancel();
      if (!upstreamCall.clientDisconnected) metrics.outputCharacters += buffered.length;
      await this.#end(
        upstreamCall.clientDisconnected
          ? { kind: 'client_disconnected' }
          : { kind: 'interrupted', error },
      );
      return undefined;
    }
  }

  #end(end: StreamOutcome): Promise<SettledUsage | GatewayError> {
    this.#settled ??= this.#settle(end, this.#bytes.metrics).catch(asGatewayError);
    return this.#settled;
  }
}
