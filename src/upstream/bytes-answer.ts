import { asGatewayError, GatewayError, shuttingDown } from '../core/errors.ts';
import type { ReplyClosing, ReplyFacts } from '../dialects/dialect.ts';
import type { Line } from './line.ts';
import { brokenOff, type Settle, type StreamEnd } from './stream-answer.ts';

/** An answer of bytes whose first ones are in hand; from here on there is no other attempt. */
export interface OpenBytes {
  readonly kind: 'bytes';
  readonly contentType: string;
  readonly contentLength: number | null;
  readonly first: Uint8Array;
  /** The bytes after the first; rejects when the connection breaks or the line hangs up. */
  next(): Promise<Uint8Array | undefined>;
  readonly line: Line;
  /** `outputCharacters` counts bytes here: those that the client was given. */
  readonly facts: ReplyFacts & { outputCharacters: number };
}

/**
 * Bytes on their way to the client, one byte behind the upstream: the last one goes out only when
 * the answer has been settled, so that no client ever holds a finished answer without a bill.
 */
export class BytesAnswer implements AsyncIterableIterator<Uint8Array> {
  readonly #bytes: OpenBytes;
  readonly #settle: Settle;
  /** Bytes that have come and not gone out yet: after the first piece, one byte. */
  #held: Uint8Array | undefined;
  #broken: GatewayError | undefined;
  #settled: Promise<ReplyClosing | GatewayError> | undefined;

  constructor(bytes: OpenBytes, settle: Settle) {
    this.#bytes = bytes;
    this.#settle = settle;
    this.#held = bytes.first;
  }

  get contentType(): string {
    return this.#bytes.contentType;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Rejects after the last byte of a broken answer: bytes have no other way to tell a failure. */
  async next(): Promise<IteratorResult<Uint8Array>> {
    if (this.#broken) throw this.#broken;
    const held = this.#held;
    if (!held) return { done: true, value: undefined };
    if (held.length > 1) return this.#allButLast(held);
    const more = await this.#readMore(held);
    if (more) return this.#allButLast(Buffer.concat([held, more]));
    this.#held = undefined;
    if (!this.#broken) {
      const closing = await this.#end({ how: 'complete' });
      if (closing instanceof GatewayError) throw closing;
      this.#bytes.line.release();
    }
    return { done: false, value: held };
  }

  /** The client took everything, or it left; if it left, nothing was settled yet. */
  async return(): Promise<IteratorResult<Uint8Array>> {
    this.#held = undefined;
    this.#bytes.line.hangUp();
    await this.#end({ how: 'left' });
    return { done: true, value: undefined };
  }

  #allButLast(piece: Uint8Array): IteratorResult<Uint8Array> {
    const last = piece.length - 1;
    this.#held = piece.subarray(last);
    this.#bytes.facts.outputCharacters += last;
    return { done: false, value: piece.subarray(0, last) };
  }

  /** The bytes after the held one, which goes out too when the upstream ends or breaks here. */
  async #readMore(held: Uint8Array): Promise<Uint8Array | undefined> {
    const { facts, line } = this.#bytes;
    try {
      const more = await this.#bytes.next();
      if (!more) facts.outputCharacters += held.length;
      return more;
    } catch (cause) {
      const error = line.isShuttingDown ? shuttingDown() : brokenOff(cause);
      this.#broken = error;
      line.hangUp();
      if (!line.clientLeft) facts.outputCharacters += held.length;
      await this.#end(line.clientLeft ? { how: 'left' } : { how: 'cut', error });
      return undefined;
    }
  }

  #end(end: StreamEnd): Promise<ReplyClosing | GatewayError> {
    this.#settled ??= this.#settle(end, this.#bytes.facts).catch(asGatewayError);
    return this.#settled;
  }
}
