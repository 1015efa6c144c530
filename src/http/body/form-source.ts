import type { ReadableStreamDefaultReader } from 'node:stream/web';
import { bodyBytesPerSecondMin, bodyStallMs, formMsMax } from '../../core/bounds.ts';
import { GatewayError, invalidRequest } from '../../core/errors.ts';
import { deadlineMs, discardRest } from './body.ts';

/** Reads the body of a form up to delimiters, buffering only a small part of it. */
export class FormSource {
  readonly #request: Request;
  /** A reader, because the stream's iterator can't be closed while it waits for a chunk. */
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #stallMs: number;
  readonly #totalMs: number;
  /** The time spent waiting for the client. Excludes our own processing time. */
  #waitedMs = 0;
  #bytes = 0;
  #buffer: Buffer = Buffer.alloc(0);
  #isDone = false;

  constructor(request: Request, stallMs = bodyStallMs, totalMs = formMsMax) {
    if (request.body === null) throw invalidRequest('The request body is empty. Send a form.');
    this.#request = request;
    this.#reader = request.body.getReader();
    this.#stallMs = stallMs;
    this.#totalMs = totalMs;
  }

  /** Returns exactly this many bytes. */
  async readExactly(bytes: number): Promise<Buffer> {
    while (this.#buffer.length < bytes) await this.#requireMore();
    return this.#consume(bytes);
  }

  /**
   * Returns the bytes before the delimiter and skips the delimiter. Returns undefined if there are
   * more than `bytesMax` bytes before it, or if there is no delimiter.
   */
  async readUntil(delimiter: Buffer, bytesMax: number): Promise<Buffer | undefined> {
    for (;;) {
      const index = this.#buffer.indexOf(delimiter);
      if (index > bytesMax) return undefined;
      if (index >= 0) {
        const found = this.#consume(index);
        this.#consume(delimiter.length);
        return found;
      }
      if (this.#buffer.length >= bytesMax + delimiter.length) return undefined;
      if (!(await this.#readMore())) return undefined;
    }
  }

  /** Returns the next bytes before the delimiter. At the delimiter, skips it and sets `isEnd`. */
  async readBefore(
    delimiter: Buffer,
  ): Promise<{ readonly bytes: Buffer; readonly isEnd: boolean }> {
    for (;;) {
      const index = this.#buffer.indexOf(delimiter);
      if (index >= 0) {
        const bytes = this.#consume(index);
        this.#consume(delimiter.length);
        return { bytes, isEnd: true };
      }
      // The last bytes may be the start of the delimiter.
      const safeLength = this.#buffer.length - delimiter.length + 1;
      if (safeLength > 0) return { bytes: this.#consume(safeLength), isEnd: false };
      await this.#requireMore();
    }
  }

  /** Reads to the end, or just past the maximum. Returns the number of bytes. */
  async skipToEnd(bytesMax: number): Promise<number> {
    let bytes = this.#buffer.length;
    this.#buffer = Buffer.alloc(0);
    while (bytes <= bytesMax) {
      const chunk = await this.#read();
      if (chunk === undefined) return bytes;
      bytes += chunk.length;
    }
    return bytes;
  }

  /** Stops reading and discards the rest. */
  async close(): Promise<void> {
    if (this.#isDone) return;
    this.#isDone = true;
    await discardRest(this.#request, this.#reader);
  }

  #consume(bytes: number): Buffer {
    const consumed = this.#buffer.subarray(0, bytes);
    this.#buffer = this.#buffer.subarray(bytes);
    return consumed;
  }

  async #requireMore(): Promise<void> {
    if (!(await this.#readMore()))
      throw invalidRequest('The form ends before its closing boundary.');
  }

  async #readMore(): Promise<boolean> {
    const chunk = await this.#read();
    if (chunk === undefined) return false;
    this.#buffer = Buffer.concat([this.#buffer, chunk]);
    return true;
  }

  async #read(): Promise<Uint8Array | undefined> {
    if (this.#isDone) return undefined;
    const startedAt = performance.now();
    const stalled = Promise.withResolvers<never>();
    const waitBudgetMs = this.#waitBudgetMs;
    const timer = setTimeout(() => stalled.reject(this.#timeoutError(waitBudgetMs)), waitBudgetMs);
    try {
      const { done, value } = await Promise.race([this.#reader.read(), stalled.promise]);
      this.#waitedMs += performance.now() - startedAt;
      this.#bytes += value?.length ?? 0;
      if (!done && value) return value;
      this.#isDone = true;
      return undefined;
    } catch (error) {
      if (error instanceof GatewayError) throw error;
      throw invalidRequest('The request body ended early.');
    } finally {
      clearTimeout(timer);
    }
  }

  /** How long to wait for the next chunk. Shorter if the client is below the minimum rate. */
  get #waitBudgetMs(): number {
    const deadline = Math.min(deadlineMs(this.#bytes, this.#stallMs), this.#totalMs);
    const leftMs = deadline - this.#waitedMs;
    return Math.min(this.#stallMs, Math.max(0, leftMs));
  }

  #timeoutError(waitBudgetMs: number): GatewayError {
    if (this.#waitedMs + waitBudgetMs > this.#totalMs - 1) {
      const minutes = Math.round(this.#totalMs / 60_000);
      return invalidRequest(`The form took longer than ${minutes} minutes to arrive.`);
    }
    const rateMin = `${bodyBytesPerSecondMin} bytes per second`;
    const tooSlowMessage = `The request body arrived more slowly than ${rateMin}.`;
    const seconds = Math.round(waitBudgetMs / 1000);
    const stalledMessage = `No request body data arrived for ${seconds} seconds.`;
    return invalidRequest(waitBudgetMs < this.#stallMs / 2 ? tooSlowMessage : stalledMessage);
  }
}
