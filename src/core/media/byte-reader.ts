/** Reads exact numbers of bytes from a source that yields pieces of arbitrary sizes. */
export class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>;
  #buffered: Uint8Array = new Uint8Array();

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** Reads a few bytes. Returns undefined if the source ends before that. */
  async take(bytes: number): Promise<Buffer | undefined> {
    const pieces: Uint8Array[] = [];
    for await (const piece of this.readUpTo(bytes)) pieces.push(piece);
    const result = Buffer.concat(pieces);
    return result.length === bytes ? result : undefined;
  }

  async skip(bytes: number): Promise<void> {
    for await (const _ of this.readUpTo(bytes)) {
      // Discard the piece.
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
      const piece = this.#buffered.subarray(0, remaining);
      this.#buffered = this.#buffered.subarray(piece.length);
      remaining -= piece.length;
      yield piece;
    }
  }

  async close(): Promise<void> {
    await this.#source.return?.();
  }
}
