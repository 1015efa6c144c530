import { keepAliveMs } from '../core/bounds.ts';
import { withTimeout } from '../core/deadlines.ts';
import { asGatewayError, type GatewayError } from '../core/errors.ts';
import type { StreamFormat, StreamIdentity } from '../dialects/dialect.ts';
import { keepAlive } from '../dialects/event-stream.ts';

export type Stream = AsyncIterableIterator<string>;

/**
 * Starts the client's stream if the answer takes a long time to begin. If an error occurs within
 * `silenceMs`, this rejects, and the response has the error's status. After that, the client gets
 * keep-alive comments, and a late error is written into the stream, which then rejects. Other
 * providers can be tried until the answer begins. `reportLate` is called once for a late error,
 * even if the client has disconnected.
 */
export async function withKeepAlive(
  opening: Promise<Stream>,
  streamFormat: StreamFormat,
  identity: StreamIdentity,
  reportLate: (error: GatewayError) => void,
  silenceMs = keepAliveMs,
): Promise<Stream> {
  const opened = await withTimeout(opening, silenceMs);
  if (opened) return opened;
  opening.catch((error) => reportLate(asGatewayError(error)));
  return new DelayedStream(opening, streamFormat, identity, silenceMs);
}

class DelayedStream implements Stream {
  readonly #opening: Promise<Stream>;
  readonly #streamFormat: StreamFormat;
  readonly #identity: StreamIdentity;
  readonly #silenceMs: number;
  #isFirst = true;
  #stream: Stream | undefined;
  #ended = false;
  /** The error that the last event reported. */
  #sentError: GatewayError | undefined;

  constructor(
    opening: Promise<Stream>,
    streamFormat: StreamFormat,
    identity: StreamIdentity,
    silenceMs: number,
  ) {
    this.#opening = opening;
    this.#streamFormat = streamFormat;
    this.#identity = identity;
    this.#silenceMs = silenceMs;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<string>> {
    if (this.#stream) return this.#stream.next();
    if (this.#sentError) throw this.#sentError;
    if (this.#ended) return { done: true, value: undefined };
    if (this.#isFirst) {
      this.#isFirst = false;
      return { done: false, value: keepAlive };
    }
    try {
      this.#stream = await withTimeout(this.#opening, this.#silenceMs);
    } catch (error) {
      this.#ended = true;
      this.#sentError = asGatewayError(error);
      return { done: false, value: this.#streamFormat.fail(this.#sentError, this.#identity) };
    }
    return this.#stream?.next() ?? { done: false, value: keepAlive };
  }

  /** Closes the stream when it opens. The client's signal cancels the attempts before that. */
  async return(): Promise<IteratorResult<string>> {
    this.#ended = true;
    const stream = this.#stream ?? (await this.#opening.catch(() => undefined));
    await stream?.return?.();
    return { done: true, value: undefined };
  }
}
