import { chunkLineBytesMax } from '../../core/bounds.ts';
import { protocolError } from './response.ts';

/** Extracts a response body from the bytes after its head and finds its end. */
export interface Framing {
  /** Parses the next bytes of the connection. Returns the body bytes among them, if any. */
  push(bytes: Uint8Array): Uint8Array | undefined;
  /** Set when the bytes after the last returned ones can't be parsed. */
  readonly error?: unknown;
  /** The last bytes, if they are left for a later turn. Push them before any others. */
  readonly unparsed?: Uint8Array | undefined;
  /** True once the body and its trailers have arrived. */
  readonly isComplete: boolean;
  /** True if the body counts as complete if the connection closes now. */
  readonly mayClose: boolean;
  /** True if bytes arrived that belong to no response. */
  readonly hasExcessBytes: boolean;
}

/** A body with a `content-length`. */
export class Sized implements Framing {
  #missing: number;
  hasExcessBytes = false;

  constructor(bytes: number) {
    this.#missing = bytes;
  }

  get isComplete(): boolean {
    return this.#missing === 0;
  }

  get mayClose(): boolean {
    return this.#missing === 0;
  }

  push(bytes: Uint8Array): Uint8Array | undefined {
    const isLonger = bytes.length > this.#missing;
    const chunk = isLonger ? bytes.subarray(0, this.#missing) : bytes;
    this.hasExcessBytes = isLonger && withoutBlankLines(bytes.subarray(chunk.length)).length > 0;
    this.#missing -= chunk.length;
    return chunk.length > 0 ? chunk : undefined;
  }
}

/** A body that ends when the connection closes. */
export class Unsized implements Framing {
  readonly isComplete = false;
  readonly mayClose = true;
  readonly hasExcessBytes = false;

  push(bytes: Uint8Array): Uint8Array | undefined {
    return bytes.length > 0 ? bytes : undefined;
  }
}

const [tab, newline, carriageReturn, space, semicolon] = [9, 10, 13, 32, 59];

/**
 * Drops leading line breaks. Some servers send an extra empty line after a response, which can't be
 * mistaken for another response.
 */
export function withoutBlankLines<Bytes extends Uint8Array>(bytes: Bytes): Bytes {
  const start = bytes.findIndex((byte) => byte !== carriageReturn && byte !== newline);
  return bytes.subarray(start < 0 ? bytes.length : start) as Bytes;
}

/** Far above the length of any response, and still an exact integer in JavaScript. */
const sizeMax = 2 ** 44;

/**
 * Bytes between chunks that are parsed in one turn. They are parsed one by one, so half a megabyte
 * of them takes up to 20 ms, and all connections of a provider may send as much at the same time.
 */
export const lineBytesPerTurn = 8 * 1024;

/** More digits than a plain size line has. Longer lines are parsed byte by byte. */
const plainDigitsMax = 8;

/** Copying fewer bytes one by one is faster than with `set`. */
const shortChunkBytes = 32;

/** A body with `transfer-encoding: chunked` (RFC 9112, section 7.1). */
export class Chunked implements Framing {
  #state: 'size' | 'extension' | 'bytes' | 'end of bytes' | 'trailer' | 'complete' = 'size';
  #size = 0;
  #digits = 0;
  /** Bytes of the current line, or the total of all trailer lines. */
  #lineBytes = 0;
  /** True while the current trailer line is empty. */
  #isBlank = true;
  /** The last byte that was read outside of a chunk's data. */
  #last = newline;
  error: unknown;
  unparsed: Uint8Array | undefined;
  hasExcessBytes = false;

  get isComplete(): boolean {
    return this.#state === 'complete';
  }

  /** After the last chunk only trailers can follow, and they aren't used. */
  get mayClose(): boolean {
    return this.#state === 'complete' || this.#state === 'trailer';
  }

  push(bytes: Uint8Array): Uint8Array | undefined {
    let first: Uint8Array | undefined;
    /** All body bytes, if they come from more than one chunk. Chunks can be as short as a byte. */
    let joined: Uint8Array | undefined;
    let length = 0;
    let allLineBytes = 0;
    this.unparsed = undefined;
    for (let position = 0; position < bytes.length; ) {
      if (this.#state === 'complete') {
        this.hasExcessBytes = withoutBlankLines(bytes.subarray(position)).length > 0;
        break;
      }
      if (this.#state !== 'bytes') {
        if (allLineBytes >= lineBytesPerTurn) {
          this.unparsed = bytes.subarray(position);
          break;
        }
        const lineBytes =
          this.#state === 'extension'
            ? this.#skipExtension(bytes, position)
            : this.#takePlainLine(bytes, position);
        position += lineBytes;
        allLineBytes += lineBytes || 1;
        // Body bytes before an invalid byte are still returned.
        if (lineBytes === 0 && !this.#accepts(bytes[position++] ?? 0)) break;
        continue;
      }
      const end = Math.min(position + this.#size, bytes.length);
      if (!first) first = bytes.subarray(position, end);
      else {
        joined ??= copyOf(first, length + bytes.length - position);
        if (end - position < shortChunkBytes)
          for (let at = position; at < end; at += 1)
            joined[length + at - position] = bytes[at] ?? 0;
        else joined.set(bytes.subarray(position, end), length);
      }
      length += end - position;
      this.#size -= end - position;
      if (this.#size === 0) this.#state = 'end of bytes';
      position = end;
    }
    return joined ? joined.subarray(0, length) : first;
  }

  /**
   * Parses the line between two chunks if it is complete and has no extension. Returns its length,
   * or 0 if it must be parsed byte by byte.
   */
  #takePlainLine(bytes: Uint8Array, start: number): number {
    let at = start;
    if (this.#last !== newline) return 0;
    if (this.#state === 'end of bytes') {
      if (bytes[at] !== carriageReturn || bytes[at + 1] !== newline) return 0;
      at += 2;
    } else if (this.#state !== 'size' || this.#lineBytes > 0) return 0;
    const firstDigit = at;
    let size = 0;
    for (; at - firstDigit < plainDigitsMax; at += 1) {
      const digit = digitOf(bytes[at] ?? 0);
      if (digit < 0) break;
      size = size * 16 + digit;
    }
    if (size === 0 || bytes[at] !== carriageReturn || bytes[at + 1] !== newline) return 0;
    this.#startLine('size');
    this.#last = newline;
    this.#size = size;
    this.#state = 'bytes';
    return at + 2 - start;
  }

  /** Skips an extension, which isn't used. Returns its length, or 0 at its end. */
  #skipExtension(bytes: Uint8Array, start: number): number {
    if (this.#last === carriageReturn) return 0;
    const end = Math.min(bytes.length, start + chunkLineBytesMax - this.#lineBytes);
    let at = start;
    while (at < end && bytes[at] !== carriageReturn && bytes[at] !== newline) at += 1;
    if (at > start) this.#last = space;
    this.#lineBytes += at - start;
    return at - start;
  }

  /** Returns false and sets `error` if the byte isn't allowed in the current state. */
  #accepts(byte: number): boolean {
    try {
      this.#step(byte);
    } catch (error) {
      this.error = error;
    }
    return this.error === undefined;
  }

  /** Parses one byte outside of a chunk's data. */
  #step(byte: number): void {
    if (this.#last === carriageReturn && byte !== newline)
      throw protocolError('a carriage return without a line feed');
    this.#last = byte;
    if (this.#state === 'end of bytes') {
      if (byte === newline) this.#startLine('size');
      else if (byte !== carriageReturn) throw protocolError('a chunk longer than its size');
      return;
    }
    if (++this.#lineBytes > chunkLineBytesMax)
      throw protocolError('too many bytes between two chunks');
    if (this.#state === 'trailer') this.#stepTrailer(byte);
    else if (byte === newline) this.#endSize();
    else if (this.#state === 'size') this.#stepSize(byte);
  }

  #stepSize(byte: number): void {
    const digit = digitOf(byte);
    if (digit >= 0) {
      this.#size = this.#size * 16 + digit;
      this.#digits += 1;
      if (this.#size > sizeMax) throw protocolError('a chunk size that is too large');
    } else if (this.#digits > 0 && [semicolon, carriageReturn, space, tab].includes(byte)) {
      this.#state = 'extension';
    } else throw protocolError('a chunk without a size');
  }

  #endSize(): void {
    if (this.#digits === 0) throw protocolError('a chunk without a size');
    if (this.#size === 0) this.#startLine('trailer');
    else this.#state = 'bytes';
  }

  #startLine(state: 'size' | 'trailer'): void {
    this.#state = state;
    this.#digits = 0;
    this.#lineBytes = 0;
  }

  #stepTrailer(byte: number): void {
    if (byte === newline && this.#isBlank) this.#state = 'complete';
    else if (byte === newline) this.#isBlank = true;
    else if (byte !== carriageReturn) this.#isBlank = false;
  }
}

/** Copies the bytes to the start of a longer array. */
function copyOf(bytes: Uint8Array, length: number): Uint8Array {
  const copy = Buffer.allocUnsafe(length);
  copy.set(bytes);
  return copy;
}

/** Returns the value of a hexadecimal digit, or -1 for any other character. */
function digitOf(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}
