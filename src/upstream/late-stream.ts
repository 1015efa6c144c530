import { keepAliveMs } from '../core/bounds.ts';
import { asGatewayError, type GatewayError } from '../core/errors.ts';
import { within } from '../core/within.ts';
import type { ClientWords, StreamIdentity } from '../dialects/dialect.ts';
import { keepAlive } from '../dialects/event-stream.ts';

export type Stream = AsyncIterableIterator<string>;

/**
 * A stream that may take long to begin. A refusal within the first seconds keeps its status; after
 * that the client gets a stream at once, hears that we are still there, and learns of a failure
 * inside it. Other providers are still tried meanwhile: nothing of an answer was said yet.
 * `tellLate` hears of such a failure too, once, whether or not the client is still there.
 */
export async function patiently(
  opening: Promise<Stream>,
  words: ClientWords,
  identity: StreamIdentity,
  tellLate: (error: GatewayError) => void,
  silenceMs = keepAliveMs,
): Promise<Stream> {
  const opened = await within(opening, silenceMs);
  if (opened) return opened;
  opening.catch((thrown) => tellLate(asGatewayError(thrown)));
  return new LateStream(opening, words, identity, silenceMs);
}

class LateStream implements Stream {
  readonly #opening: Promise<Stream>;
  readonly #words: ClientWords;
  readonly #identity: StreamIdentity;
  readonly #silenceMs: number;
  #isFirst = true;
  #stream: Stream | undefined;
  #ended = false;

  constructor(
    opening: Promise<Stream>,
    words: ClientWords,
    identity: StreamIdentity,
    silenceMs: number,
  ) {
    this.#opening = opening;
    this.#words = words;
    this.#identity = identity;
    this.#silenceMs = silenceMs;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<string>> {
    if (this.#stream) return this.#stream.next();
    if (this.#ended) return { done: true, value: undefined };
    if (this.#isFirst) {
      this.#isFirst = false;
      return { done: false, value: keepAlive };
    }
    try {
      this.#stream = await within(this.#opening, this.#silenceMs);
    } catch (thrown) {
      this.#ended = true;
      const value = this.#words.fail(asGatewayError(thrown), this.#identity);
      return { done: false, value };
    }
    return this.#stream?.next() ?? { done: false, value: keepAlive };
  }

  /** A client that leaves before the beginning ends the attempts through its own signal. */
  async return(): Promise<IteratorResult<string>> {
    this.#ended = true;
    const stream = this.#stream ?? (await this.#opening.catch(() => undefined));
    await stream?.return?.();
    return { done: true, value: undefined };
  }
}
