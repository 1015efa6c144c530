import { answerHeadBytesMax } from '../../core/bounds.ts';
import { Chunked, type Framing, Sized, Unsized } from './framing.ts';
import { protocolError, type ResponseHeaders } from './response.ts';

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
