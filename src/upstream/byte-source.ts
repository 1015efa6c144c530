import type { Line } from './line.ts';

/** Bytes piece by piece, none of them empty; undefined when there are no more. */
export interface BytePieces {
  /** Rejects when the connection breaks or the line hangs up. */
  next(): Promise<Uint8Array | undefined>;
}

/** An upstream's answer as bytes, read only when somebody asks for the next piece. */
export class ByteSource implements BytePieces {
  readonly #reader: {
    read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>;
  };
  readonly #line: Line;
  readonly #idleMs: number;
  #missingBytes: number;

  constructor(
    body: ReadableStream<Uint8Array>,
    line: Line,
    idleMs: number,
    /** Null when the upstream did not say. */
    bytes: number | null,
  ) {
    this.#reader = body.getReader();
    this.#line = line;
    this.#idleMs = idleMs;
    this.#missingBytes = bytes ?? 0;
  }

  async next(): Promise<Uint8Array | undefined> {
    for (;;) {
      this.#line.expectWithin(this.#idleMs);
      const { done, value } = await this.#reader.read();
      this.#line.relax();
      if (done) {
        if (this.#missingBytes > 0) throw new Error('The answer is shorter than it was to be.');
        return undefined;
      }
      if (!value || value.length === 0) continue;
      this.#missingBytes -= value.length;
      return value;
    }
  }
}
