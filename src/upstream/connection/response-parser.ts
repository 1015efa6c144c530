import { answerHeadBytesMax, chunkLineBytesMax } from '../../core/bounds.ts';
import { protocolError, type ResponseHeaders } from './response.ts';

/** Extracts a response body from the bytes after its head and finds its end. */
export interface Framing {
  /** Parses the next bytes of the connection. Returns the body bytes among them, if any. */
  push(bytes: Uint8Array): Uint8Array | undefined;
  /** Set when the bytes after the last returned ones can't be parsed. */
  readonly error?: unknown;
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
    let chunks: Uint8Array[] | undefined;
    for (let position = 0; position < bytes.length; ) {
      if (this.#state === 'complete') {
        this.hasExcessBytes = withoutBlankLines(bytes.subarray(position)).length > 0;
        break;
      }
      if (this.#state !== 'bytes') {
        // Body bytes before an invalid byte are still returned.
        if (!this.#accepts(bytes[position++] ?? 0)) break;
        continue;
      }
      const end = Math.min(position + this.#size, bytes.length);
      const chunk = bytes.subarray(position, end);
      this.#size -= chunk.length;
      if (this.#size === 0) this.#state = 'end of bytes';
      position = end;
      if (!first) first = chunk;
      else if (chunks) chunks.push(chunk);
      else chunks = [first, chunk];
    }
    return chunks ? Buffer.concat(chunks) : first;
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

/** Returns the value of a hexadecimal digit, or -1 for any other character. */
function digitOf(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}

/** The status line and headers of a response. */
export interface ResponseHead {
  readonly status: number;
  readonly headers: ResponseHeaders;
  /** Undefined if no body follows. */
  readonly framing: Framing | undefined;
  /** How long the connection may stay idle before it is reused. 0 if it must not be reused. */
  readonly reusableMs: number;
  /** The length of the head in bytes, including the empty line after it. */
  readonly bytes: number;
}

/**
 * Parses the response head at the start of the bytes. Returns undefined while it is incomplete.
 * Throws if the bytes aren't the start of an HTTP/1 response.
 */
export function readHead(bytes: Buffer): ResponseHead | undefined {
  const isTooLong = bytes.length > answerHeadBytesMax;
  // Search only up to the maximum size of a head. Otherwise, if thousands of short responses arrive
  // together, the search for each one would scan all that follow it.
  const end = findHeadEnd(isTooLong ? bytes.subarray(0, answerHeadBytesMax) : bytes);
  if (end === undefined) {
    if (isTooLong) throw protocolError('too many bytes of headers');
    if (!mayBeHttp(bytes)) throw protocolError("bytes that aren't an HTTP response");
    return undefined;
  }
  const { text } = end;
  const opening = statusLine.exec(text);
  if (!opening) throw protocolError("bytes that aren't an HTTP response");
  const status = Number(opening[2]);
  if (status === 101) throw protocolError('an unrequested protocol switch');
  if (!headerLines.test(text)) throw protocolError('a malformed header');
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
 * Control characters are rejected, because a bare carriage return could split a line in two. One
 * pattern checks all lines at once: providers send 20 or more, and few are ever read.
 */
const headerLines = /^[^\n]*(?:\n[\w!#$%&'*+\-.^`|~]+:[\t\x20-\x7e\x80-\xff]*\r?)*$/;

function mayBeHttp(bytes: Buffer): boolean {
  const opening = 'HTTP/1.';
  return opening.startsWith(bytes.toString('latin1', 0, opening.length));
}

const emptyLine = Buffer.from('\n\r\n');
const oddLine = Buffer.from('\n\n');

interface HeadEnd {
  /** All lines, without the last line's line break. */
  readonly text: string;
  readonly bytes: number;
}

/** Finds the empty line after the headers. Some servers end lines with a line feed alone. */
function findHeadEnd(bytes: Buffer): HeadEnd | undefined {
  const crlfEnd = bytes.indexOf(emptyLine);
  // The head may arrive byte by byte, so it is decoded only when it is complete.
  if (crlfEnd < 0 && !bytes.includes(oddLine)) return undefined;
  const text = bytes.toString('latin1', 0, crlfEnd < 0 ? bytes.length : crlfEnd);
  const newlineEnd = text.indexOf('\n\n');
  if (newlineEnd >= 0) return { text: text.slice(0, newlineEnd), bytes: newlineEnd + 2 };
  return { text, bytes: crlfEnd + emptyLine.length };
}

/**
 * Headers that are looked up in every response. One pass finds them all. Each other header takes a
 * pass of its own.
 */
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

/** Builds the pattern for header names. They aren't escaped because they are our own constants. */
const headerPattern = (...names: readonly string[]) =>
  new RegExp(`\\n(${names.join('|')}):([^\\r\\n]*)`, 'gi');

const commonHeaderLines = headerPattern(...commonHeaders);

/** Returns header values by lowercase name. Repeated headers are joined with a comma. */
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

/** Determines how the body ends (RFC 9112, section 6.3). */
function framingOf(status: number, headers: HeaderFields): Framing | undefined {
  if (status < 200 || status === 204 || status === 304) return undefined;
  const coding = headers.get('transfer-encoding')?.toLowerCase().replace(identityPrefix, '') ?? '';
  const length = headers.get('content-length');
  if (coding === 'chunked') return new Chunked();
  if (coding !== '') throw protocolError('an unsupported transfer-encoding');
  if (length === null) return new Unsized();
  const bytes = /^0*(\d{1,15})(?:, 0*\1)*$/.exec(length)?.[1];
  if (bytes === undefined) throw protocolError('an invalid content-length');
  return new Sized(Number(bytes));
}

/** `identity` means no encoding. RFC 9112 removed it, but some servers still send it. */
const identityPrefix = /^identity(?:, |$)/;

/** Returns whether it is certain where the next response on this connection begins. */
function isReusable(
  headers: HeaderFields,
  framing: Framing | undefined,
  isHttp11: boolean,
): boolean {
  if (framing instanceof Unsized) return false;
  const connection = headers.get('connection')?.toLowerCase() ?? '';
  const isKeepAlive = isHttp11 ? !connection.includes('close') : connection.includes('keep-alive');
  const length = headers.get('content-length');
  // A length together with chunks, or chunks in HTTP/1.0, may come from two proxies that disagree.
  const isCoded = headers.get('transfer-encoding') !== null;
  if (isCoded) return isKeepAlive && isHttp11 && framing !== undefined && length === null;
  // Some servers send a body with a status that can't have one.
  return isKeepAlive && (framing !== undefined || length === null || Number(length) === 0);
}

/** Without a `keep-alive` header, servers close idle connections after 5, 60, or 75 seconds. */
const defaultReusableMs = 55_000;

function reusableMsFrom(headers: HeaderFields): number {
  const seconds = /\btimeout=(\d{1,6})\b/i.exec(headers.get('keep-alive') ?? '')?.[1];
  if (seconds === undefined) return defaultReusableMs;
  // One second less, because a request is lost if the server closes the connection at that moment.
  return Math.max(0, Math.min((Number(seconds) - 1) * 1_000, defaultReusableMs));
}
