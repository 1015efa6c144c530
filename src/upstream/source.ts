import { keepAliveMs } from '../core/bounds.ts';
import type { Line } from './line.ts';
import type { Tape } from './tape.ts';
import type { Waiting, Watch } from './watch.ts';

/** Nothing has come for a while: the client should hear from us. */
export const silence: unique symbol = Symbol('silence');
/** The upstream has said everything. */
export const over: unique symbol = Symbol('over');
export type Piece = string | typeof silence | typeof over;

/** How long we wait for what, in milliseconds. */
export interface Patience {
  /** For the next byte. */
  readonly idleMs: number;
  /** Until a streaming client should hear from us. */
  readonly quietMs?: number;
  /** For all that may follow a finished answer: usage and the terminator. */
  readonly lastWordsMs?: number;
}

/** They follow at once; an upstream that never closes must not keep the client waiting. */
const lastWordsMs = 5_000;

type Read = { readonly done: boolean; readonly value?: Uint8Array | undefined };

/**
 * An upstream's answer as text, piece by piece. It is read only when somebody asks for the next
 * piece, so a slow client slows the upstream down instead of filling our memory.
 */
export class Source {
  readonly #reader: { read(): Promise<Read>; cancel(): Promise<void> };
  readonly #decoder = new TextDecoder();
  readonly #line: Line;
  readonly #watch: Watch;
  readonly #patience: Required<Patience>;
  readonly #tape: Tape | undefined;
  readonly #quiet: Waiting = { at: Number.POSITIVE_INFINITY, fire: () => this.#onQuiet() };
  #read: Promise<Read> | undefined;
  #endAt = Number.POSITIVE_INFINITY;
  #wake: ((piece: typeof silence) => void) | undefined;

  constructor(
    body: ReadableStream<Uint8Array>,
    line: Line,
    watch: Watch,
    patience: Patience,
    tape?: Tape,
  ) {
    this.#tape = tape;
    this.#reader = body.getReader();
    this.#line = line;
    this.#watch = watch;
    this.#patience = { quietMs: keepAliveMs, lastWordsMs, ...patience };
    watch.add(this.#quiet);
  }

  /** Rejects when the connection breaks or the line hangs up. */
  next(): Promise<Piece> {
    const now = performance.now();
    if (now >= this.#endAt) return Promise.resolve(over);
    if (!this.#read) {
      this.#line.expectWithin(Math.min(this.#patience.idleMs, this.#endAt - now));
      this.#read = this.#reader.read();
    }
    const read = this.#read;
    this.#quiet.at = now + this.#patience.quietMs;
    return new Promise<Piece>((resolve, reject) => {
      this.#wake = resolve;
      read.then((result) => {
        // Somebody who was told of the silence meanwhile asks again, and gets it then.
        if (this.#wake === resolve) resolve(this.#take(result));
      }, reject);
    });
  }

  #take({ done, value }: Read): Piece {
    this.#quiet.at = Number.POSITIVE_INFINITY;
    this.#wake = undefined;
    this.#read = undefined;
    this.#line.relax();
    if (done) return this.#heard(this.#decoder.decode()) || over;
    return this.#heard(this.#decoder.decode(value, { stream: true }));
  }

  /** The answer is whole, or goes on after all: bounds what is still waited for, or lifts that. */
  expectEnd(isNear: boolean): void {
    if (!isNear) this.#endAt = Number.POSITIVE_INFINITY;
    else if (this.#endAt === Number.POSITIVE_INFINITY) {
      this.#endAt = performance.now() + this.#patience.lastWordsMs;
    }
  }

  close(): void {
    this.#watch.remove(this.#quiet);
  }

  #heard(text: string): string {
    this.#tape?.add(text);
    return text;
  }

  #onQuiet(): void {
    this.#quiet.at = Number.POSITIVE_INFINITY;
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.(silence);
  }
}

/** A whole answer as text; undefined when it is longer than the bound. */
export async function readAll(source: Source, charactersMax: number): Promise<string | undefined> {
  let text = '';
  for (;;) {
    const piece = await source.next();
    if (piece === over) return text;
    if (piece === silence) continue;
    text += piece;
    if (text.length > charactersMax) return undefined;
  }
}
