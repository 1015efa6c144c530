import type { ReadableStreamDefaultReader } from 'node:stream/web';
import { bodyBytesPerSecondMin, bodyStallMs } from '../../core/bounds.ts';
import { GatewayError, invalidRequest } from '../../core/errors.ts';
import { deadlineMs, discardRest } from './body.ts';

/**
 * A body for a reader that looks for delimiters: it holds a little of the body, never much more.
 */
export class BodySource {
  readonly #request: Request;
  /** Not the stream's iterator: that one cannot be closed while it waits for the next chunk. */
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #stallMs: number;
  /**
   * How long we have waited for the body so far; the time we spend on it ourselves does not count.
   */
  #waitedMs = 0;
  #bytes = 0;
  #buffer: Buffer = Buffer.alloc(0);
  #isDone = false;

  constructor(request: Request, stallMs = bodyStallMs) {
    if (request.body === null) throw invalidRequest('The request body is empty; send a form.');
    this.#request = request;
    this.#reader = request.body.getReader();
    this.#stallMs = stallMs;
  }

  /** Takes exactly this many bytes. */
  async readExactly(bytes: number): Promise<Buffer> {
    while (this.#buffer.length < bytes) await this.#requireMore();
    return this.#consume(bytes);
  }

  /** The bytes before the mark, which is taken, too; undefined if it is not within `bytesMax`. */
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

  /** Some of what stands in front of the mark; the end takes the mark too. */
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
      // The last bytes may be the beginning of the mark.
      const safeLength = this.#buffer.length - delimiter.length + 1;
      if (safeLength > 0) return { bytes: this.#consume(safeLength), isEnd: false };
      await this.#requireMore();
    }
  }

  /** Reads to the end, or a little past the maximum; returns how many bytes there were. */
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

  /** Stops reading; the rest is not wanted. */
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
    if (!(await this.#readMore())) throw invalidRequest('The form ends before its last boundary.');
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
      throw invalidRequest('The body broke off before its end.');
    } finally {
      clearTimeout(timer);
    }
  }

  /** How long to wait for more: as long as silence is allowed, or less for a client that drips. */
  get #waitBudgetMs(): number {
    const leftMs = deadlineMs(this.#bytes, this.#stallMs) - this.#waitedMs;
    return Math.min(this.#stallMs, Math.max(0, leftMs));
  }

  #timeoutError(waitBudgetMs: number): GatewayError {
    const tooSlowMessage = `The body comes slower than ${bodyBytesPerSecondMin} bytes a second.`;
    const stalledMessage = `Nothing of the body arrived for ${Math.round(waitBudgetMs / 1000)} seconds.`;
    return invalidRequest(waitBudgetMs < this.#stallMs / 2 ? tooSlowMessage : stalledMessage);
  }
}
