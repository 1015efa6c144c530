import { answerHeadBytesMax, chunkLineBytesMax } from '../../core/bounds.ts';
import { protocolError, type ResponseHeaders } from './response.ts';

/** Finds an answer's body in the bytes behind its head, and where it ends. */
export interface Framing {
  /** Takes the next bytes of the connection; returns those of the body among them, if any. */
  push(bytes: Uint8Array): Uint8Array | undefined;
  /** Why nothing that comes after what was pushed can be read. */
  readonly fault?: unknown;
  /** Whether the body is whole, and so is all that belongs to it. */
  readonly isComplete: boolean;
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

  get isComplete(): boolean {
    return this.#missing === 0;
  }

  get mayClose(): boolean {
    return this.#missing === 0;
  }

  push(bytes: Uint8Array): Uint8Array | undefined {
    const isLonger = bytes.length > this.#missing;
    const piece = isLonger ? bytes.subarray(0, this.#missing) : bytes;
    this.isOverrun = isLonger && withoutBlankLines(bytes.subarray(piece.length)).length > 0;
    this.#missing -= piece.length;
    return piece.length > 0 ? piece : undefined;
  }
}

/** A body that goes on until the connection is closed. */
export class Unsized implements Framing {
  readonly isComplete = false;
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
export function withoutBlankLines<Bytes extends Uint8Array>(bytes: Bytes): Bytes {
  const start = bytes.findIndex((byte) => byte !== carriageReturn && byte !== newline);
  return bytes.subarray(start < 0 ? bytes.length : start) as Bytes;
}

/** A number that JavaScript holds exactly, and far above the length of any answer. */
const sizeMax = 2 ** 44;

/** A body in chunks, each behind a line that says how long it is; RFC 9112, section 7.1. */
export class Chunked implements Framing {
  #state: 'size' | 'note' | 'bytes' | 'end of bytes' | 'trailer' | 'over' = 'size';
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

  get isComplete(): boolean {
    return this.#state === 'over';
  }

  /** Behind the last chunk only trailers can follow, which nobody reads. */
  get mayClose(): boolean {
    return this.#state === 'over' || this.#state === 'trailer';
  }

  push(bytes: Uint8Array): Uint8Array | undefined {
    let first: Uint8Array | undefined;
    let more: Uint8Array[] | undefined;
    for (let position = 0; position < bytes.length; ) {
      if (this.#state === 'over') {
        this.isOverrun = withoutBlankLines(bytes.subarray(position)).length > 0;
        break;
      }
      if (this.#state !== 'bytes') {
        // Bytes before an invalid one are still delivered.
        if (!this.#accepts(bytes[position++] ?? 0)) break;
        continue;
      }
      const end = Math.min(position + this.#size, bytes.length);
      const piece = bytes.subarray(position, end);
      this.#size -= piece.length;
      if (this.#size === 0) this.#state = 'end of bytes';
      position = end;
      if (!first) first = piece;
      else if (more) more.push(piece);
      else more = [first, piece];
    }
    return more ? Buffer.concat(more) : first;
  }

  /** False where the byte is not allowed at this place. */
  #accepts(byte: number): boolean {
    try {
      this.#step(byte);
    } catch (error) {
      this.fault = error;
    }
    return this.fault === undefined;
  }

  /** Takes one byte of what stands between the chunks. */
  #step(byte: number): void {
    if (this.#last === carriageReturn && byte !== newline)
      throw protocolError('a line without its end');
    this.#last = byte;
    if (this.#state === 'end of bytes') {
      if (byte === newline) this.#startLine('size');
      else if (byte !== carriageReturn) throw protocolError('a chunk that is longer than it says');
      return;
    }
    if (++this.#lineBytes > chunkLineBytesMax) throw protocolError('too much between two chunks');
    if (this.#state === 'trailer') this.#stepTrailer(byte);
    else if (byte === newline) this.#endSize();
    else if (this.#state === 'size') this.#stepSize(byte);
  }

  #stepSize(byte: number): void {
    const digit = digitOf(byte);
    if (digit >= 0) {
      this.#size = this.#size * 16 + digit;
      this.#digits += 1;
      if (this.#size > sizeMax) throw protocolError('a chunk without end');
    } else if (this.#digits > 0 && [semicolon, carriageReturn, space, tab].includes(byte)) {
      this.#state = 'note';
    } else throw protocolError('a chunk without its length');
  }

  #endSize(): void {
    if (this.#digits === 0) throw protocolError('a chunk without its length');
    if (this.#size === 0) this.#startLine('trailer');
    else this.#state = 'bytes';
  }

  #startLine(state: 'size' | 'trailer'): void {
    this.#state = state;
    this.#digits = 0;
    this.#lineBytes = 0;
  }

  #stepTrailer(byte: number): void {
    if (byte === newline && this.#isBlank) this.#state = 'over';
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

/** What stands before an answer's body. */
export interface ResponseHead {
  readonly status: number;
  readonly headers: ResponseHeaders;
  /** Undefined where no body follows. */
  readonly framing: Framing | undefined;
  /**
   * How long the connection may be idle afterwards and still be used; 0: it ends with this answer.
   */
  readonly reusableMs: number;
  /** The length of the head, with the empty line behind it. */
  readonly bytes: number;
}

/**
 * The head that these bytes begin with; undefined while it is not whole. Throws if there is none.
 */
export function readHead(bytes: Buffer): ResponseHead | undefined {
  const isTooLong = bytes.length > answerHeadBytesMax;
  // Looks no further than a head can reach: of thousands of short answers that came at once, each
  // would otherwise search all that follow it.
  const end = findHeadEnd(isTooLong ? bytes.subarray(0, answerHeadBytesMax) : bytes);
  if (end === undefined) {
    if (isTooLong) throw protocolError('more headers than anybody needs');
    if (!mayBeHttp(bytes)) throw protocolError('something that is no HTTP');
    return undefined;
  }
  const { text } = end;
  const opening = statusLine.exec(text);
  if (!opening) throw protocolError('something that is no HTTP');
  const status = Number(opening[2]);
  if (status === 101) throw protocolError('an offer to speak something else');
  if (!headerLines.test(text)) throw protocolError('a header that is none');
  const headers = new HeaderFields(text);
  const framing = framingOf(status, headers);
  const isKeepAlive = isReusable(headers, framing, opening[1] !== '0');
  return {
    status,
    headers,
    framing,
    reusableMs: isKeepAlive ? reusableMsFrom(headers) : 0,
    bytes: end.bytes,
  };
}

const statusLine = /^HTTP\/1\.(\d) +([1-9]\d\d)(?: [^\r\n]*)?\r?(?:\n|$)/;
/**
 * No control characters: a line that ends in its middle may be two. All lines are checked at once:
 * providers send twenty and more, of which few are ever read.
 */
const headerLines = /^[^\n]*(?:\n[\w!#$%&'*+\-.^`|~]+:[\t\x20-\x7e\x80-\xff]*\r?)*$/;

function mayBeHttp(bytes: Buffer): boolean {
  const opening = 'HTTP/1.';
  return opening.startsWith(bytes.toString('latin1', 0, opening.length));
}

const emptyLine = Buffer.from('\n\r\n');
const oddLine = Buffer.from('\n\n');

interface HeadEnd {
  /** All lines, without the end of the last one. */
  readonly text: string;
  readonly bytes: number;
}

/** Some servers end all or some of their lines with a newline alone. */
function findHeadEnd(bytes: Buffer): HeadEnd | undefined {
  const crlfEnd = bytes.indexOf(emptyLine);
  // The head may come a byte at a time: it is turned into text only once.
  if (crlfEnd < 0 && !bytes.includes(oddLine)) return undefined;
  const text = bytes.toString('latin1', 0, crlfEnd < 0 ? bytes.length : crlfEnd);
  const newlineEnd = text.indexOf('\n\n');
  if (newlineEnd >= 0) return { text: text.slice(0, newlineEnd), bytes: newlineEnd + 2 };
  return { text, bytes: crlfEnd + emptyLine.length };
}

/** Headers that are read in every answer are found in one go; others are looked for one by one. */
const commonHeaders: ReadonlySet<string> = new Set([
  'transfer-encoding',
  'content-length',
  'content-type',
  'content-encoding',
  'connection',
  'keep-alive',
]);

class HeaderFields implements ResponseHeaders {
  readonly #text: string;
  readonly #commonHeaders: ReadonlyMap<string, string>;

  constructor(text: string) {
    this.#text = text;
    this.#commonHeaders = valuesIn(text, commonHeaderLines);
  }

  get(name: string): string | null {
    const values = commonHeaders.has(name)
      ? this.#commonHeaders
      : valuesIn(this.#text, headerPattern(name));
    return values.get(name) ?? null;
  }
}

/** The names are our own: none has a character with a meaning in a regular expression. */
const headerPattern = (...names: readonly string[]) =>
  new RegExp(`\\n(${names.join('|')}):([^\\r\\n]*)`, 'gi');

const commonHeaderLines = headerPattern(...commonHeaders);

/** Values by their header's name in lower case. */
function valuesIn(text: string, lines: RegExp): Map<string, string> {
  const values = new Map<string, string>();
  for (let line = lines.exec(text); line; line = lines.exec(text)) {
    const name = line[1]?.toLowerCase() ?? '';
    const value = line[2]?.trim() ?? '';
    const known = values.get(name);
    values.set(name, known === undefined ? value : `${known}, ${value}`);
  }
  return values;
}

/** RFC 9112, section 6.3. */
function framingOf(status: number, headers: HeaderFields): Framing | undefined {
  if (status < 200 || status === 204 || status === 304) return undefined;
  const coding = headers.get('transfer-encoding')?.toLowerCase().replace(identityPrefix, '') ?? '';
  const length = headers.get('content-length');
  if (coding === 'chunked') return new Chunked();
  if (coding !== '') throw protocolError('an answer in a coding that was not asked for');
  if (length === null) return new Unsized();
  const bytes = /^0*(\d{1,15})(?:, 0*\1)*$/.exec(length)?.[1];
  if (bytes === undefined) throw protocolError('an answer of no clear length');
  return new Sized(Number(bytes));
}

/** `identity` says that there is no coding. HTTP dropped the word, but it is still sent. */
const identityPrefix = /^identity(?:, |$)/;

/** Whether we and the server surely agree where the next answer begins. */
function isReusable(
  headers: HeaderFields,
  framing: Framing | undefined,
  isHttp11: boolean,
): boolean {
  if (framing instanceof Unsized) return false;
  const connection = headers.get('connection')?.toLowerCase() ?? '';
  const isKeepAlive = isHttp11 ? !connection.includes('close') : connection.includes('keep-alive');
  const length = headers.get('content-length');
  // A length beside chunks, or chunks in HTTP/1.0, may come from two servers that disagree.
  const isCoded = headers.get('transfer-encoding') !== null;
  if (isCoded) return isKeepAlive && isHttp11 && framing !== undefined && length === null;
  // Some servers send a body with a status that cannot have one.
  return isKeepAlive && (framing !== undefined || length === null || Number(length) === 0);
}

/** Servers that say nothing close idle connections after 5 seconds, or 60, or 75. */
const defaultReusableMs = 55_000;

function reusableMsFrom(headers: HeaderFields): number {
  const seconds = /\btimeout=(\d{1,6})\b/i.exec(headers.get('keep-alive') ?? '')?.[1];
  if (seconds === undefined) return defaultReusableMs;
  // A second less: a request that meets the close on its way is lost.
  return Math.max(0, Math.min((Number(seconds) - 1) * 1_000, defaultReusableMs));
}
