/** Takes a given number of bytes from a source that gives them in pieces of its own sizes. */
export class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>;
  #held: Uint8Array = new Uint8Array();

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** Takes a few bytes; undefined when there are not that many left. */
  async take(bytes: number): Promise<Buffer | undefined> {
    const pieces: Uint8Array[] = [];
    for await (const piece of this.some(bytes)) pieces.push(piece);
    const taken = Buffer.concat(pieces);
    return taken.length === bytes ? taken : undefined;
  }

  async skip(bytes: number): Promise<void> {
    for await (const _ of this.some(bytes)) {
      // Nobody wants them.
    }
  }

  /** The next bytes as they come, at most this many. */
  async *some(bytes: number): AsyncGenerator<Uint8Array> {
    for (let left = bytes; left > 0; ) {
      if (this.#held.length === 0) {
        const next = await this.#source.next();
        if (next.done) return;
        this.#held = next.value;
      }
      const piece = this.#held.subarray(0, left);
      this.#held = this.#held.subarray(piece.length);
      left -= piece.length;
      yield piece;
    }
  }

  async close(): Promise<void> {
    await this.#source.return?.();
  }
}
