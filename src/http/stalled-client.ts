import { clientStallMs } from '../core/bounds.ts';
import { Deadline, DeadlineWatcher } from '../core/deadlines.ts';
import { GatewayError } from '../core/errors.ts';
import type { Exchange } from './routes.ts';

const defaultStallSeconds = clientStallMs / 1000;

/**
 * Passes chunks through and disconnects a client that stops reading: otherwise its answer would
 * hold credits, a slot, and a connection forever. Bun requests the next chunk once the previous one
 * is sent. The time that a provider takes doesn't count, because provider calls have their own
 * deadlines.
 *
 * If the chunks reject, the transfer stays unfinished, so that no client takes the partial body for
 * a complete one. Reject with a `GatewayError` if the error is already in the log.
 */
export function disconnectWhenStalled<Chunk>(
  exchange: Exchange,
  chunks: AsyncIterator<Chunk>,
  { stallSeconds = defaultStallSeconds, encode = asIs }: BodyOptions<Chunk> = {},
): AsyncIterableIterator<Chunk> {
  return new MonitoredIterator(exchange, chunks, stallSeconds, encode);
}

interface BodyOptions<Chunk> {
  readonly stallSeconds?: number;
  /** Changes each chunk. Here, this takes no additional promise per chunk. */
  readonly encode?: (chunk: Chunk) => Chunk;
}

const asIs = <Chunk>(chunk: Chunk) => chunk;

/** How long a client may take to read the last chunk of an unfinished body. */
const readMs = 200;

const deadlines = new DeadlineWatcher();

/** Sets only a field per chunk. Changing Bun's idle timeout would take two calls per chunk. */
class MonitoredIterator<Chunk> extends Deadline implements AsyncIterableIterator<Chunk> {
  readonly #exchange: Exchange;
  readonly #chunks: AsyncIterator<Chunk>;
  readonly #stallSeconds: number;
  readonly #encode: (chunk: Chunk) => Chunk;
  #isStalled = false;
  #isReturned = false;

  constructor(
    exchange: Exchange,
    chunks: AsyncIterator<Chunk>,
    stallSeconds: number,
    encode: (chunk: Chunk) => Chunk,
  ) {
    super();
    this.#exchange = exchange;
    this.#chunks = chunks;
    this.#stallSeconds = stallSeconds;
    this.#encode = encode;
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

  /** Called if the client disconnects, or for a HEAD request, whose connection stays open. */
  async return(): Promise<IteratorResult<Chunk>> {
    this.#isReturned = true;
    this.#stopMonitoring();
    await this.#chunks.return?.();
    return { done: true, value: undefined };
  }

  /** Called when the last chunk was not read in time. Bun then closes the connection. */
  fire(): void {
    this.at = Number.POSITIVE_INFINITY;
    this.#isStalled = true;
    this.#exchange.setIdleTimeout(1);
  }

  /** Called if the client resumes reading before the connection is closed. */
  #resume(): void {
    this.#isStalled = false;
    this.#exchange.setIdleTimeout(0);
  }

  readonly #onNext = (result: IteratorResult<Chunk>) => {
    if (result.done) {
      this.#stopMonitoring();
      return result;
    }
    this.at = performance.now() + this.#stallSeconds * 1000;
    result.value = this.#encode(result.value);
    return result;
  };

  /**
   * Has the runtime close the connection, without the end of the body but with all chunks. If this
   * rejected instead, the runtime would reset the connection, which discards unread chunks. Node
   * and Bun also discard what they have received but not yet read if the connection closes at once.
   */
  readonly #onError = (error: unknown): Promise<never> => {
    if (!(error instanceof GatewayError)) this.#exchange.reportLateError(this.#exchange, error);
    if (deadlines.remove(this)) setTimeout(this.#disconnect, readMs);
    return new Promise(() => {});
  };

  readonly #disconnect = () => {
    if (!this.#isReturned) this.#exchange.setIdleTimeout(1);
  };

  /** Limits the time to read the last bytes, and then the time that the connection is idle. */
  #stopMonitoring(): void {
    if (deadlines.remove(this)) this.#exchange.setIdleTimeout(this.#stallSeconds);
  }
}
