import { clientStallMs } from '../core/bounds.ts';
import { Deadline, DeadlineWatcher } from '../core/deadlines.ts';
import type { Exchange } from './routes.ts';

const defaultStallSeconds = clientStallMs / 1000;

/**
 * The same pieces. The runtime asks for the next piece when the last has left; a client that stops
 * reading is cut off, or its answer would keep its credits, its place and its connection for ever.
 * Waiting for a silent upstream does not count: the upstream has deadlines of its own.
 */
export function disconnectWhenStalled<Chunk>(
  exchange: Exchange,
  chunks: AsyncIterator<Chunk>,
  stallSeconds = defaultStallSeconds,
): AsyncIterableIterator<Chunk> {
  return new MonitoredIterator(exchange, chunks, stallSeconds);
}

const deadlines = new DeadlineWatcher();

/** The runtime could time each piece, at the cost of two calls into it; a field costs nothing. */
class MonitoredIterator<Chunk> extends Deadline implements AsyncIterableIterator<Chunk> {
  readonly #exchange: Exchange;
  readonly #chunks: AsyncIterator<Chunk>;
  readonly #stallSeconds: number;
  #isStalled = false;

  constructor(exchange: Exchange, chunks: AsyncIterator<Chunk>, stallSeconds: number) {
    super();
    this.#exchange = exchange;
    this.#chunks = chunks;
    this.#stallSeconds = stallSeconds;
    exchange.setIdleTimeout(0);
    deadlines.add(this);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Chunk>> {
    this.at = Number.POSITIVE_INFINITY;
    if (this.#isStalled) this.#resume();
    return this.#chunks.next().then(this.#onNext, this.#onError);
  }

  /** The client has left; or it sent a HEAD request, and its connection goes on. */
  async return(): Promise<IteratorResult<Chunk>> {
    this.#stopMonitoring();
    await this.#chunks.return?.();
    return { done: true, value: undefined };
  }

  /** Called by the watch: nobody has taken the last piece. The runtime cuts the connection. */
  fire(): void {
    this.at = Number.POSITIVE_INFINITY;
    this.#isStalled = true;
    this.#exchange.setIdleTimeout(1);
  }

  /** The client has gone on reading before it was cut off. */
  #resume(): void {
    this.#isStalled = false;
    this.#exchange.setIdleTimeout(0);
  }

  readonly #onNext = (result: IteratorResult<Chunk>) => {
    if (result.done) this.#stopMonitoring();
    else this.at = performance.now() + this.#stallSeconds * 1000;
    return result;
  };

  readonly #onError = (reason: unknown) => {
    this.#stopMonitoring();
    throw reason;
  };

  /** Bytes still on their way out have as long as any piece; then the connection is idle. */
  #stopMonitoring(): void {
    if (deadlines.remove(this)) this.#exchange.setIdleTimeout(this.#stallSeconds);
  }
}
