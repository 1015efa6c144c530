import { chunkLineBytesMax } from '../../core/bounds.ts';
import { notHttp } from './broken-answer.ts';

/** Finds an answer's body in the bytes behind its head, and where it ends. */
export interface Framing {
  /** Takes the next bytes of the connection; returns those of the body among them, if any. */
  push(bytes: Uint8Array): Uint8Array | undefined;
  /** Why nothing that comes after what was pushed can be read. */
  readonly fault?: unknown;
  /** Whether the body is whole, and so is all that belongs to it. */
  readonly isOver: boolean;
  /** Whether the body is whole if the connection is closed now. */
  readonly mayClose: boolean;
  /** Whether something came that belongs to no answer. */
  readonly isOverrun: boolean;
}

/** A body whose length was told. */
export class Sized implements Framing {
  #missing: number;
  isOverrun = false;

  constructor(bytes: number) {
    this.#missing = bytes;
  }

  get isOver(): boolean {
    return this.#missing === 0;
  }

  get mayClose(): boolean {
    return this.#missing === 0;
  }

  push(bytes: Uint8Array): Uint8Array | undefined {
    const isLonger = bytes.length > this.#missing;
    const piece = isLonger ? bytes.subarray(0, this.#missing) : bytes;
    this.isOverrun = isLonger && behindBlank(bytes.subarray(piece.length)).length > 0;
    this.#missing -= piece.length;
    return piece.length > 0 ? piece : undefined;
  }
}

/** A body that goes on until the connection is closed. */
export class Unsized implements Framing {
  readonly isOver = false;
  readonly mayClose = true;
  readonly isOverrun = false;

  push(bytes: Uint8Array): Uint8Array | undefined {
    return bytes.length > 0 ? bytes : undefined;
  }
}

const [tab, newline, carriageReturn, space, semicolon] = [9, 10, 13, 32, 59];

/**
 * Some servers end an answer with an empty line too many. It belongs to no answer, and cannot be
 * taken for one.
 */
export function behindBlank<Bytes extends Uint8Array>(bytes: Bytes): Bytes {
  const start = bytes.findIndex((byte) => byte !== carriageReturn && byte !== newline);
  return bytes.subarray(start < 0 ? bytes.length : start) as Bytes;
}

/** A number that JavaScript holds exactly, and far above the length of any answer. */
const sizeMax = 2 ** 44;

/** A body in chunks, each behind a line that says how long it is; RFC 9112, section 7.1. */
export class Chunked implements Framing {
  #at: 'size' | 'note' | 'bytes' | 'end of bytes' | 'trailer' | 'over' = 'size';
  #size = 0;
  #digits = 0;
  /** Bytes of the line that is being read, or of all lines behind the last chunk. */
  #lineBytes = 0;
  /** Whether the current line behind the last chunk has nothing in it so far. */
  #isBlank = true;
  /** The last byte that was read outside of chunks. */
  #last = newline;
  fault: unknown;
  isOverrun = false;

  get isOver(): boolean {
    return this.#at === 'over';
  }

  /** Behind the last chunk only trailers can follow, which nobody reads. */
  get mayClose(): boolean {
    return this.#at === 'over' || this.#at === 'trailer';
  }

  push(bytes: Uint8Array): Uint8Array | undefined {
    let first: Uint8Array | undefined;
    let more: Uint8Array[] | undefined;
    for (let place = 0; place < bytes.length; ) {
      if (this.#at === 'over') {
        this.isOverrun = behindBlank(bytes.subarray(place)).length > 0;
        break;
      }
      if (this.#at !== 'bytes') {
        // Bytes before an invalid one are still delivered.
        if (!this.#steps(bytes[place++] ?? 0)) break;
        continue;
      }
      const end = Math.min(place + this.#size, bytes.length);
      const piece = bytes.subarray(place, end);
      this.#size -= piece.length;
      if (this.#size === 0) this.#at = 'end of bytes';
      place = end;
      if (!first) first = piece;
      else if (more) more.push(piece);
      else more = [first, piece];
    }
    return more ? Buffer.concat(more) : first;
  }

  /** False where the byte is not allowed at this place. */
  #steps(byte: number): boolean {
    try {
      this.#step(byte);
    } catch (thrown) {
      this.fault = thrown;
    }
    return this.fault === undefined;
  }

  /** Takes one byte of what stands between the chunks. */
  #step(byte: number): void {
    if (this.#last === carriageReturn && byte !== newline) throw notHttp('a line without its end');
    this.#last = byte;
    if (this.#at === 'end of bytes') {
      if (byte === newline) this.#startLine('size');
      else if (byte !== carriageReturn) throw notHttp('a chunk that is longer than it says');
      return;
    }
    if (++this.#lineBytes > chunkLineBytesMax) throw notHttp('too much between two chunks');
    if (this.#at === 'trailer') this.#stepTrailer(byte);
    else if (byte === newline) this.#endSize();
    else if (this.#at === 'size') this.#stepSize(byte);
  }

  #stepSize(byte: number): void {
    const digit = digitOf(byte);
    if (digit >= 0) {
      this.#size = this.#size * 16 + digit;
      this.#digits += 1;
      if (this.#size > sizeMax) throw notHttp('a chunk without end');
    } else if (this.#digits > 0 && [semicolon, carriageReturn, space, tab].includes(byte)) {
      this.#at = 'note';
    } else throw notHttp('a chunk without its length');
  }

  #endSize(): void {
    if (this.#digits === 0) throw notHttp('a chunk without its length');
    if (this.#size === 0) this.#startLine('trailer');
    else this.#at = 'bytes';
  }

  #startLine(at: 'size' | 'trailer'): void {
    this.#at = at;
    this.#digits = 0;
    this.#lineBytes = 0;
  }

  #stepTrailer(byte: number): void {
    if (byte === newline && this.#isBlank) this.#at = 'over';
    else if (byte === newline) this.#isBlank = true;
    else if (byte !== carriageReturn) this.#isBlank = false;
  }
}

/** The value of a hexadecimal digit; -1 for any other character. */
function digitOf(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}
