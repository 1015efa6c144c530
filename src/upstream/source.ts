import { keepAliveMs } from '../core/bounds.ts';
import type { Line } from './line.ts';
import type { Waiting, Watch } from './watch.ts';

/** Nothing has come for a while: the client should hear from us. */
export const silence: unique symbol = Symbol('silence');
/** The upstream has said everything. */
export const over: unique symbol = Symbol('over');
export type Piece = string | typeof silence | typeof over;

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
  readonly #idleTimeoutMs: number;
  readonly #quiet: Waiting = { at: Number.POSITIVE_INFINITY, fire: () => this.#onQuiet() };
  #read: Promise<Read> | undefined;
  #wake: ((piece: typeof silence) => void) | undefined;

  constructor(body: ReadableStream<Uint8Array>, line: Line, watch: Watch, idleTimeoutMs: number) {
    this.#reader = body.getReader();
    this.#line = line;
    this.#watch = watch;
    this.#idleTimeoutMs = idleTimeoutMs;
    watch.add(this.#quiet);
  }

  /** Rejects when the connection breaks or the line hangs up. */
  async next(): Promise<Piece> {
    if (!this.#read) {
      this.#line.expectWithin(this.#idleTimeoutMs);
      this.#read = this.#reader.read();
    }
    const read = this.#read;
    this.#quiet.at = performance.now() + keepAliveMs;
    const result = await new Promise<Read | typeof silence>((resolve, reject) => {
      this.#wake = resolve;
      read.then(resolve, reject);
    });
    this.#quiet.at = Number.POSITIVE_INFINITY;
    if (result === silence) return silence;
    this.#read = undefined;
    this.#line.relax();
    if (!result.done) return this.#decoder.decode(result.value, { stream: true });
    return this.#decoder.decode() || over;
  }

  close(): void {
    this.#watch.remove(this.#quiet);
  }

  #onQuiet(): void {
    this.#quiet.at = Number.POSITIVE_INFINITY;
    this.#wake?.(silence);
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
