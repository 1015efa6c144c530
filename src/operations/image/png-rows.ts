import { type PngHeader, type PngPass, passesOf } from './png-layout.ts';

/** Rows of a PNG out of its unpacked bytes, one at a time: no more than two are held. */
export class PngRows {
  readonly #passes: readonly PngPass[];
  readonly #step: number;
  readonly #take: (row: Uint8Array, y: number, pass: PngPass) => void;
  #pass = 0;
  #row = 0;
  #above: Uint8Array;
  #current: Uint8Array;
  /** Bytes of the current row that have come, including the filter in front of it. */
  #filled = 0;

  constructor(header: PngHeader, take: (row: Uint8Array, y: number, pass: PngPass) => void) {
    this.#passes = passesOf(header);
    this.#step = Math.max(1, header.bitsPerPixel / 8);
    this.#take = take;
    const [first] = this.#passes;
    this.#above = new Uint8Array(first?.rowBytes ?? 0);
    this.#current = new Uint8Array((first?.rowBytes ?? 0) + 1);
  }

  get isComplete(): boolean {
    return this.#pass >= this.#passes.length;
  }

  /**
   * False when there are more bytes than the picture has room for, or a row has no valid filter.
   */
  push(bytes: Uint8Array): boolean {
    for (let at = 0; at < bytes.length; ) {
      if (this.isComplete) return false;
      const piece = bytes.subarray(at, at + this.#current.length - this.#filled);
      this.#current.set(piece, this.#filled);
      this.#filled += piece.length;
      at += piece.length;
      if (this.#filled === this.#current.length && !this.#finishRow()) return false;
    }
    return true;
  }

  #finishRow(): boolean {
    const pass = this.#passes[this.#pass];
    const row = this.#current.subarray(1);
    if (!pass || !unfilter(this.#current[0] ?? 0, row, this.#above, this.#step)) return false;
    this.#take(row, pass.y + this.#row * pass.dy, pass);
    this.#above = row;
    this.#row += 1;
    this.#filled = 0;
    if (this.#row < pass.height) {
      this.#current = new Uint8Array(pass.rowBytes + 1);
      return true;
    }
    this.#row = 0;
    this.#pass += 1;
    const { rowBytes } = this.#passes[this.#pass] ?? { rowBytes: 0 };
    this.#above = new Uint8Array(rowBytes);
    this.#current = new Uint8Array(rowBytes + 1);
    return true;
  }
}

/** Undoes the filter of a row: bytes are differences to neighbours. False for an unknown filter. */
function unfilter(kind: number, row: Uint8Array, above: Uint8Array, step: number): boolean {
  if (kind > 4) return false;
  if (kind === 0) return true;
  for (let at = 0; at < row.length; at += 1) {
    const left = at < step ? 0 : (row[at - step] ?? 0);
    const up = above[at] ?? 0;
    const corner = at < step ? 0 : (above[at - step] ?? 0);
    row[at] = (row[at] ?? 0) + guess(kind, left, up, corner);
  }
  return true;
}

function guess(kind: number, left: number, up: number, corner: number): number {
  if (kind === 1) return left;
  if (kind === 2) return up;
  if (kind === 3) return (left + up) >> 1;
  const [toLeft, toUp] = [Math.abs(up - corner), Math.abs(left - corner)];
  const toCorner = Math.abs(left + up - 2 * corner);
  if (toLeft <= toUp && toLeft <= toCorner) return left;
  return toUp <= toCorner ? up : corner;
}
