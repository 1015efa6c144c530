import type { ReadableStreamDefaultReader } from 'node:stream/web';
import { bodyBytesPerSecondMin, bodyStallMs } from '../../core/bounds.ts';
import { GatewayError, invalidRequest } from '../../core/errors.ts';
import { dueMs } from './body.ts';
import { discardRest } from './unread-body.ts';

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
  #held: Buffer = Buffer.alloc(0);
  #isOver = false;

  constructor(request: Request, stallMs = bodyStallMs) {
    if (request.body === null) throw invalidRequest('The request body is empty; send a form.');
    this.#request = request;
    this.#reader = request.body.getReader();
    this.#stallMs = stallMs;
  }

  /** Takes exactly this many bytes. */
  async take(bytes: number): Promise<Buffer> {
    while (this.#held.length < bytes) await this.#more();
    return this.#cut(bytes);
  }

  /** The bytes before the mark, which is taken, too; undefined if it is not within `bytesMax`. */
  async until(mark: Buffer, bytesMax: number): Promise<Buffer | undefined> {
    for (;;) {
      const at = this.#held.indexOf(mark);
      if (at > bytesMax) return undefined;
      if (at >= 0) {
        const found = this.#cut(at);
        this.#cut(mark.length);
        return found;
      }
      if (this.#held.length >= bytesMax + mark.length) return undefined;
      if (!(await this.#grow())) return undefined;
    }
  }

  /** Some of what stands in front of the mark; the end takes the mark too. */
  async before(mark: Buffer): Promise<{ readonly bytes: Buffer; readonly isEnd: boolean }> {
    for (;;) {
      const at = this.#held.indexOf(mark);
      if (at >= 0) {
        const bytes = this.#cut(at);
        this.#cut(mark.length);
        return { bytes, isEnd: true };
      }
      // The last bytes may be the beginning of the mark.
      const sure = this.#held.length - mark.length + 1;
      if (sure > 0) return { bytes: this.#cut(sure), isEnd: false };
      await this.#more();
    }
  }

  /** Reads to the end, or a little past the maximum; returns how many bytes there were. */
  async drain(bytesMax: number): Promise<number> {
    let bytes = this.#held.length;
    this.#held = Buffer.alloc(0);
    while (bytes <= bytesMax) {
      const chunk = await this.#read();
      if (chunk === undefined) return bytes;
      bytes += chunk.length;
    }
    return bytes;
  }

  /** Stops reading; the rest is not wanted. */
  async close(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    await discardRest(this.#request, this.#reader);
  }

  #cut(bytes: number): Buffer {
    const cut = this.#held.subarray(0, bytes);
    this.#held = this.#held.subarray(bytes);
    return cut;
  }

  async #more(): Promise<void> {
    if (!(await this.#grow())) throw invalidRequest('The form ends before its last boundary.');
  }

  async #grow(): Promise<boolean> {
    const chunk = await this.#read();
    if (chunk === undefined) return false;
    this.#held = Buffer.concat([this.#held, chunk]);
    return true;
  }

  async #read(): Promise<Uint8Array | undefined> {
    if (this.#isOver) return undefined;
    const startedAt = performance.now();
    const stalled = Promise.withResolvers<never>();
    const patienceMs = this.#patienceMs;
    const timer = setTimeout(() => stalled.reject(this.#tooSlow(patienceMs)), patienceMs);
    try {
      const { done, value } = await Promise.race([this.#reader.read(), stalled.promise]);
      this.#waitedMs += performance.now() - startedAt;
      this.#bytes += value?.length ?? 0;
      if (!done && value) return value;
      this.#isOver = true;
      return undefined;
    } catch (thrown) {
      if (thrown instanceof GatewayError) throw thrown;
      throw invalidRequest('The body broke off before its end.');
    } finally {
      clearTimeout(timer);
    }
  }

  /** How long to wait for more: as long as silence is allowed, or less for a client that drips. */
  get #patienceMs(): number {
    const leftMs = dueMs(this.#bytes, this.#stallMs) - this.#waitedMs;
    return Math.min(this.#stallMs, Math.max(0, leftMs));
  }

  #tooSlow(patienceMs: number): GatewayError {
    const pace = `The body comes slower than ${bodyBytesPerSecondMin} bytes a second.`;
    const silence = `Nothing of the body arrived for ${Math.round(patienceMs / 1000)} seconds.`;
    return invalidRequest(patienceMs < this.#stallMs / 2 ? pace : silence);
  }
}
