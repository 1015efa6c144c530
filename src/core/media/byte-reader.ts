/** Reads exact numbers of bytes from a source that yields chunks of any size. */
export class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>;
  #buffered: Uint8Array = new Uint8Array();

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** Reads exactly this many bytes into memory. Returns undefined if the source ends first. */
  async take(bytes: number): Promise<Buffer | undefined> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of this.readUpTo(bytes)) chunks.push(chunk);
    const result = Buffer.concat(chunks);
    return result.length === bytes ? result : undefined;
  }

  async skip(bytes: number): Promise<void> {
    for await (const _ of this.readUpTo(bytes)) {
      // Discard the chunk.
    }
  }

  /** Yields the next bytes as they arrive, at most this many. */
  async *readUpTo(bytes: number): AsyncGenerator<Uint8Array> {
    for (let remaining = bytes; remaining > 0; ) {
      if (this.#buffered.length === 0) {
        const next = await this.#source.next();
        if (next.done) return;
        this.#buffered = next.value;
      }
      const chunk = this.#buffered.subarray(0, remaining);
      this.#buffered = this.#buffered.subarray(chunk.length);
      remaining -= chunk.length;
      yield chunk;
    }
  }

  async close(): Promise<void> {
    await this.#source.return?.();
  }
}
