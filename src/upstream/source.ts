import { keepAliveMs, wordlessBytesMax } from '../core/bounds.ts';
import { Waiting } from '../core/watch.ts';
import type { StreamRelay } from '../dialects/dialect.ts';
import { UnusableAnswer } from '../dialects/unusable-answer.ts';
import type { AnswerBody } from './connection/answer.ts';
import type { Line } from './line.ts';
import type { Tape } from './tape.ts';

/** Nothing has come for a while: the client should hear from us. */
export const silence: unique symbol = Symbol('silence');
/** The upstream has said everything. */
export const over: unique symbol = Symbol('over');
export type Heard = string | typeof silence | typeof over;

/** How long we wait for what, in milliseconds. */
export interface Patience {
  /** For the next byte. */
  readonly idleMs: number;
  /** Until a streaming client should hear from us. */
  readonly quietMs?: number;
  /** For all that may follow a finished answer: usage and the terminator. */
  readonly lastWordsMs?: number;
}

/**
 * The last words follow at once; an upstream that never closes must not keep the client waiting.
 */
const lastWordsMs = 5_000;

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
export class Source extends Waiting {
  readonly #body: AnswerBody;
  readonly #decoder: Decoder;
  readonly #line: Line;
  readonly #patience: Required<Patience>;
  readonly #tape: Tape | undefined;
  #isReading = false;
  /** Bytes that have come since the last words for the client. */
  #wordlessBytes = 0;
  /** The part of a long read that nobody has asked for yet. */
  #rest: Uint8Array | undefined;
  /** How long to wait for the end once it is asked for: a slow client uses none of that up. */
  #endWithinMs = Number.POSITIVE_INFINITY;
  /** When that wait is over; known once the end was asked for. */
  #endAt = Number.POSITIVE_INFINITY;
  /** The reader that waits for the next piece. */
  #waiter: ((piece: Heard | Promise<Heard>) => void) | undefined;
  /** What came while no reader waited: the last one had been told of the silence. */
  #early: Promise<Heard> | undefined;

  constructor(
    body: AnswerBody,
    line: Line,
    patience: Patience,
    tape?: Tape,
    decoder: Decoder = new TextDecoder(),
  ) {
    super();
    this.#decoder = decoder;
    this.#tape = tape;
    this.#body = body;
    this.#line = line;
    this.#patience = { quietMs: keepAliveMs, lastWordsMs, ...patience };
    line.watch.add(this);
  }

  get quietMs(): number {
    return this.#patience.quietMs;
  }

  /** Rejects when the connection breaks or the line hangs up. */
  next(): Promise<Heard> {
    const rest = this.#rest;
    if (rest !== undefined && !this.#early) return Promise.resolve(this.#takeRest(rest));
    if (this.#early !== undefined) return this.#takeEarly(this.#early);
    const now = performance.now();
    this.#endAt = Math.min(this.#endAt, now + this.#endWithinMs);
    if (now >= this.#endAt) return Promise.resolve(over);
    if (!this.#isReading) {
      this.#isReading = true;
      this.#line.expectWithin(this.#patience.idleMs, now);
      this.#body.read(this.#onRead, this.#onBreak);
      if (this.#early !== undefined) return this.#takeEarly(this.#early);
    }
    this.at = Math.min(now + this.#patience.quietMs, this.#endAt);
    return new Promise(this.#wait);
  }

  #takeEarly(early: Promise<Heard>): Promise<Heard> {
    this.#early = undefined;
    return early;
  }

  readonly #wait = (waiter: (piece: Heard | Promise<Heard>) => void) => {
    this.#waiter = waiter;
  };

  readonly #onRead = (bytes: Uint8Array | undefined) => {
    this.#isReading = false;
    const piece = bytes ? this.#takeRest(bytes) : this.#takeEnd();
    if (!this.#tell(piece)) this.#early = Promise.resolve(piece);
  };

  readonly #onBreak = (reason: unknown) => {
    this.#isReading = false;
    const broken = Promise.reject(reason);
    if (this.#tell(broken)) return;
    this.#early = broken;
    // The next reader gets this rejection; if there is none, it must not end the process.
    broken.catch(() => undefined);
  };

  /** False where no reader waits. */
  #tell(piece: Heard | Promise<Heard>): boolean {
    const waiter = this.#waiter;
    this.#waiter = undefined;
    this.at = Number.POSITIVE_INFINITY;
    waiter?.(piece);
    return waiter !== undefined;
  }

  #takeEnd(): Heard {
    this.#line.relax();
    return this.#heard(this.#decoder.decode()) || over;
  }

  #takeRest(bytes: Uint8Array): string {
    this.#line.relax();
    const isLong = bytes.length > pieceBytesMax;
    this.#rest = isLong ? bytes.subarray(pieceBytesMax) : undefined;
    const piece = isLong ? bytes.subarray(0, pieceBytesMax) : bytes;
    this.#wordlessBytes += piece.length;
    return this.#heard(this.#decoder.decode(piece, moreToCome));
  }

  /**
   * Whether a stream's last piece had anything for its client. Comments keep a stream open, as any
   * byte does; but an upstream that sends much and nothing else is given up.
   */
  noteWords(isSaid: boolean): void {
    if (isSaid) this.#wordlessBytes = 0;
    else if (this.#wordlessBytes > wordlessBytesMax) {
      throw new UnusableAnswer(`${wordlessBytesMax} bytes without a word`);
    }
  }

  /**
   * Bounds the wait for the end of a whole answer; there is no bound where it goes on after all.
   */
  expectEnd({ finished, ended }: Pick<StreamRelay, 'finished' | 'ended'>): void {
    if (ended) this.#endWithinMs = endMs;
    else if (finished) this.#endWithinMs = this.#patience.lastWordsMs;
    else this.expectMore();
  }

  expectMore(): void {
    this.#endWithinMs = Number.POSITIVE_INFINITY;
    this.#endAt = Number.POSITIVE_INFINITY;
  }

  close(): void {
    this.#line.watch.remove(this);
  }

  #heard(text: string): string {
    this.#tape?.add(text);
    return text;
  }

  /** Called by the watch: it has been quiet for long, or the end was waited for in vain. */
  fire(): void {
    const isOver = performance.now() >= this.#endAt;
    this.#tell(isOver ? over : silence);
  }
}

/** A longer answer takes its part of the memory that all requests share. */
const shortLengthMax = 1024 * 1024;

/** A whole answer as text; undefined when it is longer than the bound. */
export async function readAll(
  source: Source,
  charactersMax: number,
  claimRoom: (bytes: number) => void = () => undefined,
): Promise<string | undefined> {
  let text = '';
  let claimed = 0;
  for (;;) {
    const piece = await source.next();
    if (piece === over) return text;
    if (piece === silence) continue;
    text += piece;
    if (text.length > charactersMax) return undefined;
    if (text.length > shortLengthMax) {
      claimRoom(text.length - claimed);
      claimed = text.length;
    }
  }
}
