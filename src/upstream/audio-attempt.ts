import type { Provider } from '../config/config.ts';
import { bytesWithoutOutputMax, errorBytesMax } from '../core/bounds.ts';
import { turns } from '../core/turns.ts';
import type { ReadResult, UpstreamFailure, UpstreamRequest } from '../dialects/dialect.ts';
import { EventStreamReader } from '../dialects/event-stream.ts';
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
  isUncompressed,
  noMetrics,
  type OpenBytes,
  withTraceparent,
} from './attempt.ts';
import type { HttpResponse, ResponseBody, ResponseHeaders } from './connection/response.ts';
import { checkFor } from './guard/pinned-call.ts';
import { cutFailure, send } from './provider-client.ts';
import { pieceBytesMax, readAll, TextSource } from './text-source.ts';
import { UpstreamCall } from './upstream-call.ts';

/** Returns chunks, none of them empty, and undefined at the end. */
interface ByteChunks {
  /** Rejects when the connection breaks or the call is canceled. */
  next(): Promise<Uint8Array | undefined>;
}

/** Reads an upstream's answer as bytes. A chunk is read only when it is requested. */
export class ByteSource implements ByteChunks {
  readonly #body: ResponseBody;
  readonly #upstreamCall: UpstreamCall;
  readonly #idleMs: number;
  #remainingBytes: number;

  constructor(
    body: ResponseBody,
    upstreamCall: UpstreamCall,
    idleMs: number,
    /** The answer's content-length, or null if it has none. */
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
        throw new Error('The response is shorter than its content-length.');
      }
      if (bytes?.length === 0) continue;
      this.#remainingBytes -= bytes?.length ?? 0;
      return bytes;
    }
  }

  readonly #read: ResponseBody['read'] = (onBytes, onError) => this.#body.read(onBytes, onError);
}

/** A request whose answer is forwarded as it arrives. */
interface AudioRequest {
  readonly request: UpstreamRequest;
  /** Returns the content type for the client, based on the first bytes. */
  readonly contentTypeFor: (first: Uint8Array) => string;
  /** Reads an answer that arrives as events. */
  readonly openEvents: (() => AudioEvents) | null;
}

/** Sends one request to one offer and reads the answer up to its first bytes. */
export async function attemptAudio(
  audioRequest: AudioRequest,
  offer: Offer,
  context: AttemptContext,
): Promise<AttemptResult> {
  const { provider } = offer;
  const upstreamCall = new UpstreamCall(context.deadlines, context.clientSignal);
  upstreamCall.mustOpenBy(context.openBy);
  upstreamCall.expectDataWithin(provider.timeoutMs);
  try {
    const request = withTraceparent(audioRequest.request, context);
    const response = await send(provider, request, upstreamCall, checkFor(offer, context));
    const active = { upstreamCall, idleMs: provider.idleTimeoutMs, provider };
    const result = await open(response, audioRequest, active);
    if (result.kind === 'failed') upstreamCall.cancel();
    else upstreamCall.opened();
    return result;
  } catch (error) {
    return failed(failureFrom(error, upstreamCall));
  }
}

/** The upstream call, and how long its server may send nothing. */
interface ActiveCall {
  readonly upstreamCall: UpstreamCall;
  readonly idleMs: number;
  readonly provider: Provider;
}

/** Reads the text of an answer that isn't audio. */
async function readText(
  { body }: HttpResponse,
  { upstreamCall, idleMs }: ActiveCall,
): Promise<string> {
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
  audioRequest: AudioRequest,
  active: ActiveCall,
): Promise<AttemptResult> {
  const { ok, status, headers, body } = response;
  if (!ok) {
    const text = isUncompressed(response) ? await readText(response, active) : '';
    return failed(readFailure(status, text, headers, Date.now()));
  }
  if (!isUncompressed(response)) {
    return failed(malformed('The provider sent a compressed response, which was not requested.'));
  }
  const type = headers.get('content-type') ?? '';
  const events = isEventStream(response) ? audioRequest.openEvents?.() : undefined;
  if (type !== '' && !audio.test(type) && !events) {
    return failed(notAudioFailure(type, await readText(response, active)));
  }
  if (!body) return failed(malformed('The provider sent an empty response.'));
  // Events have a last one. Other audio doesn't show its end.
  const cut = events ? undefined : cutFailure(active.provider, response);
  if (cut) return failed(cut);
  const length = events ? null : contentLengthOf(headers);
  const source = new ByteSource(body, active.upstreamCall, active.idleMs, length);
  const chunks: ByteChunks = events ? new AudioEventChunks(source, events) : source;
  const first = await chunks.next();
  if (!first) return failed(malformed('The provider ended its response before any audio.'));
  return {
    kind: 'bytes',
    contentType: audioRequest.contentTypeFor(first),
    contentLength: length,
    first,
    next: () => chunks.next(),
    upstreamCall: active.upstreamCall,
    metrics: metricsFrom(events),
  };
}

function contentLengthOf(headers: ResponseHeaders): number | null {
  const length = headers.get('content-length');
  return length !== null && /^\d{1,15}$/.test(length) ? Number(length) : null;
}

/** Returns the failure for an answer that isn't audio. It may contain an error. */
function notAudioFailure(type: string, text: string): UpstreamFailure {
  const [mediaType = ''] = type.split(';');
  const unexpected = malformed(
    `The provider's response has an unexpected content type (${mediaType}).`,
  );
  const read = readAnswer<never>(text, (body) => ({
    ok: false,
    failure: failureInside(body) ?? unexpected,
  }));
  return read.ok || read.failure.kind === 'malformed' ? unexpected : read.failure;
}

/** Returns metrics whose usage is known once the last event has been read. */
function metricsFrom(events: AudioEvents | undefined): OpenBytes['metrics'] {
  return {
    ...noMetrics,
    get usage() {
      return events?.usage;
    },
  };
}

/** Reads the audio bytes in events. */
class AudioEventChunks implements ByteChunks {
  readonly #source: ByteSource;
  readonly #events: AudioEvents;
  readonly #reader = new EventStreamReader();
  readonly #decoder = new TextDecoder();
  #pending: Uint8Array[] = [];
  /** The part of a long read that hasn't been parsed yet. */
  #rest: Uint8Array | undefined;
  /** Bytes received since the last audio. */
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
      const chunk = await this.#nextPiece();
      const text = this.#decoder.decode(chunk ?? new Uint8Array(), { stream: chunk !== undefined });
      const messages = this.#reader.push(text);
      if (!chunk) messages.push(...this.#reader.end());
      this.#bytesWithoutAudio += chunk?.length ?? 0;
      for (const message of messages) this.#take(this.#events.push(message));
      if (this.#bytesWithoutAudio > bytesWithoutOutputMax) {
        throw new MalformedAnswer(`${bytesWithoutOutputMax} bytes without audio`);
      }
      if (!chunk && !this.#events.finished)
        throw new Error("The provider's response ended before its last event.");
    }
  }

  async #nextPiece(): Promise<Uint8Array | undefined> {
    const bytes = this.#rest ?? (await this.#source.next());
    if (!bytes) return undefined;
    const piece = bytes.subarray(0, pieceBytesMax);
    this.#rest = bytes.length > piece.length ? bytes.subarray(piece.length) : undefined;
    await turns.pass(piece.length);
    return piece;
  }

  #take(audio: ReadResult<Uint8Array | undefined>): void {
    if (!audio.ok) throw new Error(`The provider's response failed: ${audio.failure.message}`);
    if (!audio.value?.length) return;
    this.#pending.push(audio.value);
    this.#bytesWithoutAudio = 0;
  }
}
