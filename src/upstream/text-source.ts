import { bytesWithoutOutputMax, eventsWithoutContentMax, keepAliveMs } from '../core/bounds.ts';
import { Deadline } from '../core/deadlines.ts';
import { turns } from '../core/turns.ts';
import type { StreamTransform } from '../dialects/dialect.ts';
import { NoContentError } from '../dialects/failure.ts';
import type { ResponseBody } from './connection/response.ts';
import type { AnswerRecorder } from './recorder.ts';
import type { UpstreamCall } from './upstream-call.ts';

/** Nothing has arrived for a while, so the client should get a keep-alive. */
export const silence: unique symbol = Symbol('silence');
/** The upstream's answer has ended. */
export const endOfStream: unique symbol = Symbol('endOfStream');
export type SourcePiece = string | typeof silence | typeof endOfStream;

/** Timeouts in milliseconds. */
export interface SourceTimeouts {
  /** How long to wait for the next byte. */
  readonly idleMs: number;
  /** How long until a streaming client gets a keep-alive. */
  readonly keepAliveAfterMs?: number;
  /** How long to read what may follow a finished answer: usage and the terminator. */
  readonly afterFinishMs?: number;
}

/** A finished answer ends after this time, even if the upstream never closes it. */
const afterFinishMs = 5_000;

/** How long to wait for the end after a terminator, to make the connection reusable. */
const endMs = 250;

/**
 * A read may return a megabyte. The part that hasn't been requested yet isn't decoded, and other
 * streams get turns between its pieces.
 */
export const pieceBytesMax = 16 * 1024;

/** After this long without a request, the unread part of a long read is copied to free the rest. */
const slowReaderMs = 1_000;

/** Makes the decoder keep a character that is split between two pieces. */
const moreToCome = { stream: true };

/** Decodes bytes to text. Returns '' while the bytes are incomplete. */
interface Decoder {
  decode(bytes?: Uint8Array, options?: { readonly stream: boolean }): string;
}

/**
 * Reads an upstream's answer as text, in pieces. It reads only when the next piece is requested, so
 * a slow client slows the upstream down instead of filling our memory.
 */
export class TextSource extends Deadline {
  readonly #body: ResponseBody;
  readonly #decoder: Decoder;
  readonly #upstreamCall: UpstreamCall;
  readonly #timeouts: Required<SourceTimeouts>;
  readonly #recorder: AnswerRecorder | undefined;
  #isReading = false;
  /** Bytes received since the last output for the client. */
  #bytesWithoutOutput = 0;
  /** Events received since the last content. */
  #eventsWithoutContent = 0;
  /** The part of a read that hasn't been requested yet. */
  #rest: Uint8Array | undefined;
  /** How long to wait for the end. The wait starts at the next read, which a slow client delays. */
  #endWithinMs = Number.POSITIVE_INFINITY;
  /** When that wait ends. Set by the next read. */
  #endAt = Number.POSITIVE_INFINITY;
  /** The reader that waits for the next piece. */
  #waiter: ((piece: SourcePiece | Promise<SourcePiece>) => void) | undefined;
  /** The end of the answer, if it came after its reader had got `silence` instead. */
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

  /** Rejects when the connection breaks or the call is canceled. */
  next(): Promise<SourcePiece> {
    const rest = this.#rest;
    if (rest !== undefined) {
      if (turns.take(Math.min(rest.length, pieceBytesMax)))
        return Promise.resolve(this.#takeRest(rest));
      this.at = performance.now() + this.#timeouts.keepAliveAfterMs;
      return this.#waitForTurn(rest);
    }
    if (this.#early !== undefined) return this.#takeEarly(this.#early);
    const now = performance.now();
    this.#endAt = Math.min(this.#endAt, now + this.#endWithinMs);
    if (now >= this.#endAt) return Promise.resolve(endOfStream);
    if (!this.#isReading) {
      this.#isReading = true;
      this.#upstreamCall.expectDataWithin(this.#timeouts.idleMs, now);
      this.#body.read(this.#onRead, this.#onBreak);
      if (this.#early !== undefined) return this.#takeEarly(this.#early);
      if (this.#rest !== undefined) return this.next();
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

  #waitForTurn({ length }: Uint8Array): Promise<SourcePiece> {
    const piece = new Promise(this.#wait);
    turns.wait(Math.min(length, pieceBytesMax), this.#resume);
    return piece;
  }

  /** Called when it is this stream's turn. Its reader may have got `silence` instead. */
  readonly #resume = () => {
    const rest = this.#rest;
    if (this.#waiter && rest !== undefined) this.#deliver(this.#takeRest(rest));
  };

  readonly #onRead = (bytes: Uint8Array | undefined) => {
    this.#isReading = false;
    if (bytes === undefined) {
      const end = this.#takeEnd();
      if (!this.#deliver(end)) this.#early = Promise.resolve(end);
      return;
    }
    this.#rest = bytes;
    if (!this.#waiter) return;
    const length = Math.min(bytes.length, pieceBytesMax);
    if (turns.take(length)) this.#deliver(this.#takeRest(bytes));
    else turns.wait(length, this.#resume);
  };

  readonly #onBreak = (reason: unknown) => {
    this.#isReading = false;
    const broken = Promise.reject(reason);
    if (this.#deliver(broken)) return;
    this.#early = broken;
    // The next read returns this rejection. If there is no read, it must not crash the process.
    broken.catch(() => undefined);
  };

  /** Returns false if no reader is waiting. */
  #deliver(piece: SourcePiece | Promise<SourcePiece>): boolean {
    const waiter = this.#waiter;
    this.#waiter = undefined;
    if (this.#rest === undefined) this.at = Number.POSITIVE_INFINITY;
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
    if (isLong) this.at = performance.now() + slowReaderMs;
    const chunk = isLong ? bytes.subarray(0, pieceBytesMax) : bytes;
    this.#bytesWithoutOutput += chunk.length;
    return this.#record(this.#decoder.decode(chunk, moreToCome));
  }

  /**
   * Records what the last piece of a stream contained: its number of events, whether they had
   * content, and whether there was output for the client. Any byte keeps a stream open, but an
   * upstream that sends too much without content is cut off.
   */
  recordProgress(events: number, hasContent: boolean, hasOutput: boolean = hasContent): void {
    if (hasOutput) this.#bytesWithoutOutput = 0;
    else if (this.#bytesWithoutOutput > bytesWithoutOutputMax)
      throw new NoContentError(`${bytesWithoutOutputMax} bytes without output`);
    this.#eventsWithoutContent = hasContent ? 0 : this.#eventsWithoutContent + events;
    if (this.#eventsWithoutContent > eventsWithoutContentMax)
      throw new NoContentError(`${eventsWithoutContentMax} events without content`);
  }

  /** Limits the wait for the end of a finished answer. If the answer continues, lifts the limit. */
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

  /**
   * Called by the watcher when the upstream is silent, the wait for the end is over, or the client
   * is slow.
   */
  fire(): void {
    if (!this.#waiter) {
      this.at = Number.POSITIVE_INFINITY;
      if (this.#rest) this.#rest = new Uint8Array(this.#rest);
      return;
    }
    const isOver = performance.now() >= this.#endAt;
    this.#deliver(isOver ? endOfStream : silence);
  }
}

/** Longer answers reserve memory in the budget of all requests. */
const shortLengthMax = 1024 * 1024;

/** Returns the full answer as text, or undefined if it is longer than `charactersMax`. */
export async function readAll(
  source: TextSource,
  charactersMax: number,
  reserveMemory: (bytes: number) => void = () => undefined,
): Promise<string | undefined> {
  let text = '';
  let reservedBytes = 0;
  for (;;) {
    const piece = await source.next();
    if (piece === endOfStream) {
      if (text.length > shortLengthMax) {
        // This joins the pieces, which takes 40 ms for 60 MB. Parsing takes longer, so it gets a
        // turn of its own.
        text.charCodeAt(0);
        await turns.pass(text.length);
      }
      return text;
    }
    if (piece === silence) continue;
    text += piece;
    if (text.length > charactersMax) return undefined;
    if (text.length > shortLengthMax) {
      reserveMemory(text.length - reservedBytes);
      reservedBytes = text.length;
    }
  }
}
