import { clientStallMs } from '../core/bounds.ts';
import { Waiting, Watch } from '../core/watch.ts';
import type { Exchange } from './exchange.ts';

const stallSecondsUsual = clientStallMs / 1000;

/**
 * The same pieces. The runtime asks for the next piece when the last has left; a client that stops
 * reading is cut off, or its answer would keep its credits, its place and its connection for ever.
 * Waiting for a silent upstream does not count: the upstream has deadlines of its own.
 */
export function cutWhenStalled<Piece>(
  exchange: Exchange,
  pieces: AsyncIterator<Piece>,
  stallSeconds = stallSecondsUsual,
): AsyncIterableIterator<Piece> {
  return new WatchedPieces(exchange, pieces, stallSeconds);
}

const watch = new Watch();

/** The runtime could time each piece, at the cost of two calls into it; a field costs nothing. */
class WatchedPieces<Piece> extends Waiting implements AsyncIterableIterator<Piece> {
  readonly #exchange: Exchange;
  readonly #pieces: AsyncIterator<Piece>;
  readonly #stallSeconds: number;
  #isStalled = false;

  constructor(exchange: Exchange, pieces: AsyncIterator<Piece>, stallSeconds: number) {
    super();
    this.#exchange = exchange;
    this.#pieces = pieces;
    this.#stallSeconds = stallSeconds;
    exchange.allowSilence(0);
    watch.add(this);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Piece>> {
    this.at = Number.POSITIVE_INFINITY;
    if (this.#isStalled) this.#forgive();
    return this.#pieces.next().then(this.#give, this.#fail);
  }

  /** The client has left; or it sent a HEAD request, and its connection goes on. */
  async return(): Promise<IteratorResult<Piece>> {
    this.#leave();
    await this.#pieces.return?.();
    return { done: true, value: undefined };
  }

  /** Called by the watch: nobody has taken the last piece. The runtime cuts the connection. */
  fire(): void {
    this.at = Number.POSITIVE_INFINITY;
    this.#isStalled = true;
    this.#exchange.allowSilence(1);
  }

  /** The client has gone on reading before it was cut off. */
  #forgive(): void {
    this.#isStalled = false;
    this.#exchange.allowSilence(0);
  }

  readonly #give = (step: IteratorResult<Piece>) => {
    if (step.done) this.#leave();
    else this.at = performance.now() + this.#stallSeconds * 1000;
    return step;
  };

  readonly #fail = (reason: unknown) => {
    this.#leave();
    throw reason;
  };

  /** Bytes still on their way out have as long as any piece; then the connection is idle. */
  #leave(): void {
    if (watch.remove(this)) this.#exchange.allowSilence(this.#stallSeconds);
  }
}
