import { GatewayError } from '../core/errors.ts';
import type { ReplyClosing } from '../dialects/dialect.ts';
import type { OpenStream } from './attempt.ts';
import { over, silence } from './source.ts';

/** How a stream ended. Exactly one of these settles the request. */
export type StreamEnd =
  | { readonly how: 'complete' }
  | { readonly how: 'cut'; readonly error: GatewayError }
  | { readonly how: 'left' };

/**
 * A stream on its way to the client. The runtime asks for the next piece only when the client has
 * taken the last one, and calls `return` when it is done or gone, even if it never began: so this
 * is a plain iterator and not a generator, whose `finally` would not run before its first step.
 *
 * `settle` is called once, before the last words go out: no client ever holds a finished answer
 * that was not billed.
 */
export class StreamAnswer implements AsyncIterableIterator<string> {
  readonly #stream: OpenStream;
  readonly #settle: (end: StreamEnd) => Promise<ReplyClosing>;
  #stage: 'opening' | 'flowing' | 'closing' | 'closed' = 'opening';
  #settled: Promise<ReplyClosing> | undefined;

  constructor(stream: OpenStream, settle: (end: StreamEnd) => Promise<ReplyClosing>) {
    this.#stream = stream;
    this.#settle = settle;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<string>> {
    if (this.#stage === 'opening') {
      this.#stage = this.#stream.ended ? 'closing' : 'flowing';
      return { done: false, value: this.#stream.opening };
    }
    if (this.#stage === 'flowing') {
      const value = await this.#flow();
      if (value !== '') return { done: false, value };
    }
    if (this.#stage === 'closed') return { done: true, value: undefined };
    this.#stage = 'closed';
    return { done: false, value: await this.#lastWords() };
  }

  /** The client took everything, or left: then nothing was settled yet. */
  async return(): Promise<IteratorResult<string>> {
    this.#stage = 'closed';
    this.#stream.source.close();
    this.#stream.line.hangUp();
    await this.#end({ how: 'left' });
    return { done: true, value: undefined };
  }

  /** The next words for the client; '' once the upstream has ended or failed. */
  async #flow(): Promise<string> {
    const { relay, reader, source } = this.#stream;
    while (!relay.facts.failure) {
      try {
        const piece = await source.next();
        if (piece === silence) return relay.keepAlive();
        let text = '';
        for (const message of piece === over ? reader.end() : reader.push(piece)) {
          text += relay.push(message);
        }
        if (piece === over) this.#finish();
        if (text !== '' || piece === over) return text;
      } catch {
        // A broken connection and a hung-up line end alike; lastWords() finds out which it was.
        break;
      }
    }
    this.#finish();
    return '';
  }

  /** A client that left while we waited for the upstream has closed the answer already. */
  #finish(): void {
    if (this.#stage === 'flowing') this.#stage = 'closing';
  }

  async #lastWords(): Promise<string> {
    const { relay, source, line } = this.#stream;
    source.close();
    // The line hangs up on the upstream by itself then, which looks like a broken upstream.
    if (line.clientLeft && !relay.finished) {
      await this.#end({ how: 'left' });
      return '';
    }
    const error = brokenBy(this.#stream);
    if (error) {
      line.hangUp();
      await this.#end({ how: 'cut', error });
      return relay.fail(error);
    }
    return relay.close(await this.#end({ how: 'complete' }));
  }

  #end(end: StreamEnd): Promise<ReplyClosing> {
    this.#settled ??= this.#settle(end);
    return this.#settled;
  }
}

/** Why an ended stream does not count as an answer; undefined when it does. */
function brokenBy({ relay, line }: OpenStream): GatewayError | undefined {
  const { failure } = relay.facts;
  if (failure) {
    const message = `The provider failed in the middle of its answer: ${failure.message}`;
    return new GatewayError('upstream_error', message);
  }
  if (relay.finished) return undefined;
  if (line.timedOut) {
    const message = 'The provider fell silent in the middle of its answer.';
    return new GatewayError('upstream_error', message, { status: 504 });
  }
  return new GatewayError('upstream_error', 'The provider broke off in the middle of its answer.');
}
