import { asGatewayError, GatewayError, shuttingDown } from '../core/errors.ts';
import { turns } from '../core/turns.ts';
import type { SettledUsage } from '../dialects/dialect.ts';
import type { OpenBytes } from './attempt.ts';
import { interrupted, type Settle, type StreamOutcome } from './stream-answer.ts';
import { pieceBytesMax } from './text-source.ts';

/**
 * Writes bytes to the client, one byte behind the upstream. The last byte is sent only after the
 * answer has been settled, so that no client receives a complete answer that wasn't charged.
 */
export class BytesAnswer implements AsyncIterableIterator<Uint8Array> {
  readonly #bytes: OpenBytes;
  readonly #settle: Settle;
  /** Bytes that aren't sent yet. At the end of each chunk, this is one byte. */
  #buffered: Uint8Array | undefined;
  #error: GatewayError | undefined;
  #settled: Promise<SettledUsage | GatewayError> | undefined;

  constructor(bytes: OpenBytes, settle: Settle) {
    this.#bytes = bytes;
    this.#settle = settle;
    this.#buffered = bytes.first;
  }

  get contentType(): string {
    return this.#bytes.contentType;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Rejects after the last byte of an interrupted answer, because bytes can't carry an error. */
  async next(): Promise<IteratorResult<Uint8Array>> {
    if (this.#error) throw this.#error;
    const buffered = this.#buffered;
    if (!buffered) return { done: true, value: undefined };
    if (buffered.length > 1) return this.#takePiece(buffered);
    const more = await this.#readMore(buffered);
    if (more) return this.#takePiece(Buffer.concat([buffered, more]));
    this.#buffered = undefined;
    if (!this.#error) {
      const settled = await this.#end({ kind: 'complete' });
      if (settled instanceof GatewayError) throw settled;
      this.#bytes.upstreamCall.release();
    }
    return { done: false, value: buffered };
  }

  /** Called when the client has received everything or has disconnected. */
  async return(): Promise<IteratorResult<Uint8Array>> {
    this.#buffered = undefined;
    this.#bytes.upstreamCall.cancel();
    await this.#end({ kind: 'client_disconnected' });
    return { done: true, value: undefined };
  }

  /**
   * Returns a short piece, because the runtime copies it if the client doesn't read. Other requests
   * get turns between the pieces, because many answers can arrive faster than they are sent.
   */
  async #takePiece(chunk: Uint8Array): Promise<IteratorResult<Uint8Array>> {
    const last = chunk.length - 1;
    const length = Math.min(last, pieceBytesMax);
    await turns.pass(length);
    // The client may have disconnected meanwhile.
    if (!this.#buffered) return { done: true, value: undefined };
    // Copy the last byte, because a view would keep the memory of the chunk.
    const rest = chunk.subarray(length);
    this.#buffered = rest.length === 1 ? new Uint8Array(rest) : rest;
    this.#bytes.metrics.outputCharacters += length;
    return { done: false, value: chunk.subarray(0, length) };
  }

  /** Reads the next bytes. If there are none, the buffered byte will also be sent, so count it. */
  async #readMore(buffered: Uint8Array): Promise<Uint8Array | undefined> {
    const { metrics, upstreamCall } = this.#bytes;
    try {
      const more = await this.#bytes.next();
      if (!more) metrics.outputCharacters += buffered.length;
      return more;
    } catch (cause) {
      const error = upstreamCall.isShuttingDown ? shuttingDown() : interrupted(cause);
      this.#error = error;
      upstreamCall.cancel();
      if (!upstreamCall.clientDisconnected) metrics.outputCharacters += buffered.length;
      await this.#end(
        upstreamCall.clientDisconnected
          ? { kind: 'client_disconnected' }
          : { kind: 'interrupted', error },
      );
      return undefined;
    }
  }

  #end(outcome: StreamOutcome): Promise<SettledUsage | GatewayError> {
    this.#settled ??= this.#settle(outcome, this.#bytes.metrics).catch(asGatewayError);
    return this.#settled;
  }
}
