import { attemptMsMax, clientStallMs, contentlessBytesMax, keepAliveMs } from '../core/bounds.ts';
import { Deadline, type DeadlineWatcher } from '../core/deadlines.ts';
import type { StreamTransform } from '../dialects/dialect.ts';
import { MalformedAnswer } from '../dialects/failure.ts';
import type { ResponseBody } from './connection/response.ts';
import type { AnswerRecorder } from './recorder.ts';

/** A reader that goes on when the client has left. */
export interface LateReader {
  /** How long to wait for what is still to come; 0 when nothing is worth waiting for. */
  readonly lingerMs: number;
}

/** Shared by all listeners, which saves an object for each call. */
const once = { once: true };

/**
 * One call to an upstream and our patience with it. Hangs up by itself when the client
 * leaves, the upstream stays silent too long or the whole takes too long, and remembers which of
 * the two sides it was.
 */
export class UpstreamCall extends Deadline {
  /** Made when a signal is asked for: most calls need none. */
  #controller: AbortController | undefined;
  #cancelable: { cancel(): void } | undefined;
  #isCanceled = false;
  readonly deadlines: DeadlineWatcher;
  readonly #client: AbortSignal;
  #endsAt: number;
  readonly #stallMs: number;
  #lateReader: LateReader | undefined;
  #disconnectedAt: number | undefined;
  #isReleased = false;
  #timedOut = false;

  constructor(
    deadlines: DeadlineWatcher,
    client: AbortSignal,
    attemptMs = attemptMsMax,
    stallMs = clientStallMs,
  ) {
    super();
    this.deadlines = deadlines;
    this.#client = client;
    this.#endsAt = performance.now() + attemptMs;
    this.#stallMs = stallMs;
    if (client.aborted || deadlines.isOver) this.#isCanceled = true;
    // The listener is never removed: that costs as much, and the signal ends with its request.
    else client.addEventListener('abort', this, once);
    deadlines.add(this);
  }

  /** For calls that can only be cancelled by a signal. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#isCanceled) this.#controller.abort();
    return this.#controller.signal;
  }

  /** Cancels this call when the line hangs up; at once where it has done so already. */
  bind(cancelable: { cancel(): void }): void {
    this.#cancelable = cancelable;
    if (this.#isCanceled) cancelable.cancel();
  }

  get timedOut(): boolean {
    return this.#timedOut;
  }

  get clientDisconnected(): boolean {
    return this.#client.aborted;
  }

  /** Whether the process is shutting down, so that nobody can wait for the rest. */
  get isShuttingDown(): boolean {
    return this.deadlines.isOver;
  }

  /** From here on the line outlives its client for as long as this reader wants. */
  lingerFor(reader: LateReader): void {
    this.#lateReader = reader;
  }

  /** The client has left. Called again when the reader waits for something else. */
  linger(): void {
    const lingerMs = this.#lateReader?.lingerMs ?? 0;
    if (lingerMs === 0) {
      this.#abort();
      return;
    }
    this.#disconnectedAt ??= performance.now();
    this.#endsAt = this.#disconnectedAt + lingerMs;
    this.at = Math.min(this.at, this.#endsAt);
  }

  /** Something must be heard within this time. */
  expectDataWithin(ms: number, now = performance.now()): void {
    this.at = Math.min(now + ms, this.#endsAt);
  }

  /** Nothing is expected: we are waiting for the client, not for the upstream. */
  suspendTimeout(): void {
    this.at = Math.min(performance.now() + this.#stallMs, this.#endsAt);
  }

  /** Ends the connection, whatever state it is in. Safe to call again. */
  cancel(): void {
    this.deadlines.remove(this);
    this.#abort();
  }

  #abort(): void {
    this.#isCanceled = true;
    this.#cancelable?.cancel();
    this.#controller?.abort();
  }

  /** The call is over: nothing more is to come, and nothing has to be ended. */
  release(): void {
    this.deadlines.remove(this);
    this.#isReleased = true;
  }

  /** Called by the watch: the patience has ended. */
  fire(): void {
    this.#timedOut = true;
    this.cancel();
  }

  /** Called by the watch: the process has to go. */
  override giveUp(): void {
    this.cancel();
  }

  /** Called by the client's signal: it has left. */
  handleEvent(): void {
    if (!this.#isReleased) this.linger();
  }
}

/** Nothing has come for a while: the client should hear from us. */
export const silence: unique symbol = Symbol('silence');
/** The upstream has said everything. */
export const endOfStream: unique symbol = Symbol('over');
export type SourcePiece = string | typeof silence | typeof endOfStream;

/** How long we wait for what, in milliseconds. */
export interface SourceTimeouts {
  /** For the next byte. */
  readonly idleMs: number;
  /** Until a streaming client should hear from us. */
  readonly keepAliveAfterMs?: number;
  /** For all that may follow a finished answer: usage and the terminator. */
  readonly afterFinishMs?: number;
}

/**
 * The last words follow at once; an upstream that never closes must not keep the client waiting.
 */
const afterFinishMs = 5_000;

/** After a terminator only the end can follow, which frees the connection for others. */
const endMs = 250;

/** A read may bring a megabyte: what a slow client has not asked for waits undecoded. */
const pieceBytesMax = 64 * 1024;

/** A character may be cut in two where two pieces meet: the decoder keeps its first half. */
const moreToCome = { stream: true };

/** Bytes in, text out; '' while the bytes so far make no text. */
interface Decoder {
  decode(bytes?: Uint8Array, options?: { readonly stream: boolean }): string;
}

/**
 * An upstream's answer as text, piece by piece. It is read only when somebody asks for the next
 * piece, so a slow client slows the upstream down instead of filling our memory.
 */
export class TextSource extends Deadline {
  readonly #body: ResponseBody;
  readonly #decoder: Decoder;
  readonly #upstreamCall: UpstreamCall;
  readonly #timeouts: Required<SourceTimeouts>;
  readonly #recorder: AnswerRecorder | undefined;
  #isReading = false;
  /** Bytes that have come since the last words for the client. */
  #bytesWithoutOutput = 0;
  /** The part of a long read that nobody has asked for yet. */
  #rest: Uint8Array | undefined;
  /** How long to wait for the end once it is asked for: a slow client uses none of that up. */
  #endWithinMs = Number.POSITIVE_INFINITY;
  /** When that wait is over; known once the end was asked for. */
  #endAt = Number.POSITIVE_INFINITY;
  /** The reader that waits for the next piece. */
  #waiter: ((piece: SourcePiece | Promise<SourcePiece>) => void) | undefined;
  /** What came while no reader waited: the last one had been told of the silence. */
  #early: Promise<SourcePiece> | undefined;

  constructor(
    body: ResponseBody,
    upstreamCall: UpstreamCall,
    timeouts: SourceTimeouts,
    recorder?: AnswerRecorder,
    decoder: Decoder = new TextDecoder(),
  ) {
    super();
    this.#decoder = decoder;
    this.#recorder = recorder;
    this.#body = body;
    this.#upstreamCall = upstreamCall;
    this.#timeouts = { keepAliveAfterMs: keepAliveMs, afterFinishMs, ...timeouts };
    upstreamCall.deadlines.add(this);
  }

  get keepAliveAfterMs(): number {
    return this.#timeouts.keepAliveAfterMs;
  }

  /** Rejects when the connection breaks or the line hangs up. */
  next(): Promise<SourcePiece> {
    const rest = this.#rest;
    if (rest !== undefined && !this.#early) return Promise.resolve(this.#takeRest(rest));
    if (this.#early !== undefined) return this.#takeEarly(this.#early);
    const now = performance.now();
    this.#endAt = Math.min(this.#endAt, now + this.#endWithinMs);
    if (now >= this.#endAt) return Promise.resolve(endOfStream);
    if (!this.#isReading) {
      this.#isReading = true;
      this.#upstreamCall.expectDataWithin(this.#timeouts.idleMs, now);
      this.#body.read(this.#onRead, this.#onBreak);
      if (this.#early !== undefined) return this.#takeEarly(this.#early);
    }
    this.at = Math.min(now + this.#timeouts.keepAliveAfterMs, this.#endAt);
    return new Promise(this.#wait);
  }

  #takeEarly(early: Promise<SourcePiece>): Promise<SourcePiece> {
    this.#early = undefined;
    return early;
  }

  readonly #wait = (waiter: (piece: SourcePiece | Promise<SourcePiece>) => void) => {
    this.#waiter = waiter;
  };

  readonly #onRead = (bytes: Uint8Array | undefined) => {
    this.#isReading = false;
    const piece = bytes ? this.#takeRest(bytes) : this.#takeEnd();
    if (!this.#deliver(piece)) this.#early = Promise.resolve(piece);
  };

  readonly #onBreak = (reason: unknown) => {
    this.#isReading = false;
    const broken = Promise.reject(reason);
    if (this.#deliver(broken)) return;
    this.#early = broken;
    // The next reader gets this rejection; if there is none, it must not end the process.
    broken.catch(() => undefined);
  };

  /** False where no reader waits. */
  #deliver(piece: SourcePiece | Promise<SourcePiece>): boolean {
    const waiter = this.#waiter;
    this.#waiter = undefined;
    this.at = Number.POSITIVE_INFINITY;
    waiter?.(piece);
    return waiter !== undefined;
  }

  #takeEnd(): SourcePiece {
    this.#upstreamCall.suspendTimeout();
    return this.#record(this.#decoder.decode()) || endOfStream;
  }

  #takeRest(bytes: Uint8Array): string {
    this.#upstreamCall.suspendTimeout();
    const isLong = bytes.length > pieceBytesMax;
    this.#rest = isLong ? bytes.subarray(pieceBytesMax) : undefined;
    const piece = isLong ? bytes.subarray(0, pieceBytesMax) : bytes;
    this.#bytesWithoutOutput += piece.length;
    return this.#record(this.#decoder.decode(piece, moreToCome));
  }

  /**
   * Whether a stream's last piece had anything for its client. Comments keep a stream open, as any
   * byte does; but an upstream that sends much and nothing else is given up.
   */
  recordProgress(hasOutput: boolean): void {
    if (hasOutput) this.#bytesWithoutOutput = 0;
    else if (this.#bytesWithoutOutput > contentlessBytesMax) {
      throw new MalformedAnswer(`${contentlessBytesMax} bytes without a word`);
    }
  }

  /**
   * Bounds the wait for the end of a whole answer; there is no bound where it goes on after all.
   */
  expectEnd({ finished, ended }: Pick<StreamTransform, 'finished' | 'ended'>): void {
    if (ended) this.#endWithinMs = endMs;
    else if (finished) this.#endWithinMs = this.#timeouts.afterFinishMs;
    else this.expectMore();
  }

  expectMore(): void {
    this.#endWithinMs = Number.POSITIVE_INFINITY;
    this.#endAt = Number.POSITIVE_INFINITY;
  }

  close(): void {
    this.#upstreamCall.deadlines.remove(this);
  }

  #record(text: string): string {
    this.#recorder?.add(text);
    return text;
  }

  /** Called by the watch: it has been quiet for long, or the end was waited for in vain. */
  fire(): void {
    const isOver = performance.now() >= this.#endAt;
    this.#deliver(isOver ? endOfStream : silence);
  }
}

/** A longer answer takes its part of the memory that all requests share. */
const shortLengthMax = 1024 * 1024;

/** A whole answer as text; undefined when it is longer than the bound. */
export async function readAll(
  source: TextSource,
  charactersMax: number,
  reserveMemory: (bytes: number) => void = () => undefined,
): Promise<string | undefined> {
  let text = '';
  let reservedBytes = 0;
  for (;;) {
    const piece = await source.next();
    if (piece === endOfStream) return text;
    if (piece === silence) continue;
    text += piece;
    if (text.length > charactersMax) return undefined;
    if (text.length > shortLengthMax) {
      reserveMemory(text.length - reservedBytes);
      reservedBytes = text.length;
    }
  }
}
