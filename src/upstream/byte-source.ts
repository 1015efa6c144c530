import type { AnswerBody } from './connection/answer.ts';
import type { Line } from './line.ts';

/** Bytes piece by piece, none of them empty; undefined when there are no more. */
export interface BytePieces {
  /** Rejects when the connection breaks or the line hangs up. */
  next(): Promise<Uint8Array | undefined>;
}

/** An upstream's answer as bytes, read only when somebody asks for the next piece. */
export class ByteSource implements BytePieces {
  readonly #body: AnswerBody;
  readonly #line: Line;
  readonly #idleMs: number;
  #missingBytes: number;

  constructor(
    body: AnswerBody,
    line: Line,
    idleMs: number,
    /** The length of the answer; null when the upstream did not say. */
    bytes: number | null,
  ) {
    this.#body = body;
    this.#line = line;
    this.#idleMs = idleMs;
    this.#missingBytes = bytes ?? 0;
  }

  async next(): Promise<Uint8Array | undefined> {
    for (;;) {
      this.#line.expectWithin(this.#idleMs);
      const bytes = await new Promise<Uint8Array | undefined>(this.#read);
      this.#line.relax();
      if (!bytes && this.#missingBytes > 0) {
        throw new Error('The answer is shorter than it was to be.');
      }
      if (bytes?.length === 0) continue;
      this.#missingBytes -= bytes?.length ?? 0;
      return bytes;
    }
  }

  readonly #read: AnswerBody['read'] = (taken, broken) => this.#body.read(taken, broken);
}
