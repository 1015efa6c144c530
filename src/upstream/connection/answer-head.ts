import { answerHeadBytesMax } from '../../core/bounds.ts';
import type { AnswerHeaders } from './answer.ts';
import { notHttp } from './broken-answer.ts';
import { Chunked, type Framing, Measured, Unmeasured } from './framing.ts';

/** What stands before an answer's body. */
export interface AnswerHead {
  readonly status: number;
  readonly headers: AnswerHeaders;
  /** Undefined where no body follows. */
  readonly framing: Framing | undefined;
  /** How long the connection may be idle afterwards and still be used; 0 when it ends with this. */
  readonly keptMs: number;
  /** With the empty line behind it. */
  readonly bytes: number;
}

/** Undefined while the rest of it is to come. Throws when it is none. */
export function readHead(bytes: Buffer): AnswerHead | undefined {
  const end = endOf(bytes);
  // However much of it came at once.
  if ((end?.bytes ?? bytes.length) > answerHeadBytesMax) {
    throw notHttp('more headers than anybody needs');
  }
  if (end === undefined) {
    if (!isBeginning(bytes)) throw notHttp('something that is no HTTP');
    return undefined;
  }
  const lines = bytes.toString('latin1', 0, end.at).split('\n');
  const opening = statusLine.exec(lines[0] ?? '');
  if (!opening) throw notHttp('something that is no HTTP');
  const status = Number(opening[2]);
  if (status === 101) throw notHttp('an offer to speak something else');
  const headers = readHeaders(lines);
  const framing = framingOf(status, headers);
  const isKept = isClear(headers, framing, opening[1] !== '0');
  return { status, headers, framing, keptMs: isKept ? keptMsOf(headers) : 0, bytes: end.bytes };
}

const statusLine = /^HTTP\/1\.(\d) +([1-9]\d\d)(?: .*)?\r?$/;
const fieldName = /^[\w!#$%&'*+\-.^`|~]+$/;
/** All but control characters: a line that ends in its middle may be two. */
const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/;

function isBeginning(bytes: Buffer): boolean {
  const opening = 'HTTP/1.';
  return opening.startsWith(bytes.toString('latin1', 0, opening.length));
}

/** Some servers end their lines with a newline alone, or some of them. */
function endOf(bytes: Buffer): { readonly at: number; readonly bytes: number } | undefined {
  const usual = bytes.indexOf('\n\r\n');
  const odd = bytes.subarray(0, usual < 0 ? bytes.length : usual).indexOf('\n\n');
  if (odd >= 0) return { at: odd, bytes: odd + 2 };
  return usual >= 0 ? { at: usual, bytes: usual + 3 } : undefined;
}

class Fields implements AnswerHeaders {
  readonly #values = new Map<string, string>();

  get(name: string): string | null {
    return this.#values.get(name) ?? null;
  }

  add(name: string, value: string): void {
    const known = this.#values.get(name);
    this.#values.set(name, known === undefined ? value : `${known}, ${value}`);
  }
}

function readHeaders(lines: readonly string[]): Fields {
  const headers = new Fields();
  for (let at = 1; at < lines.length; at += 1) {
    const line = lines[at] ?? '';
    const colon = line.indexOf(':');
    const name = line.slice(0, colon);
    const value = line.slice(colon + 1).trim();
    if (colon < 1 || !fieldName.test(name) || !fieldValue.test(value)) {
      throw notHttp('a header that is none');
    }
    headers.add(name.toLowerCase(), value);
  }
  return headers;
}

/** RFC 9112, section 6.3. */
function framingOf(status: number, headers: Fields): Framing | undefined {
  if (status < 200 || status === 204 || status === 304) return undefined;
  const coding = headers.get('transfer-encoding')?.toLowerCase().replace(asItIs, '') ?? '';
  const length = headers.get('content-length');
  if (coding === 'chunked') return new Chunked();
  if (coding !== '') throw notHttp('an answer in a coding that was not asked for');
  if (length === null) return new Unmeasured();
  const bytes = /^0*(\d{1,15})(?:, 0*\1)*$/.exec(length)?.[1];
  if (bytes === undefined) throw notHttp('an answer of no clear length');
  return new Measured(Number(bytes));
}

/** Says that there is none. No longer a word of HTTP, and still sent. */
const asItIs = /^identity(?:, |$)/;

/** Whether the other side and we know the same place where the next answer begins. */
function isClear(headers: Fields, framing: Framing | undefined, isNew: boolean): boolean {
  if (framing instanceof Unmeasured) return false;
  const connection = headers.get('connection')?.toLowerCase() ?? '';
  const isKept = isNew ? !connection.includes('close') : connection.includes('keep-alive');
  const length = headers.get('content-length');
  // Whoever sends a length with chunks, or chunks in the old HTTP, may be two who disagree.
  const isCoded = headers.get('transfer-encoding') !== null;
  if (isCoded) return isKept && isNew && framing !== undefined && length === null;
  // Some send a body where none can be.
  return isKept && (framing !== undefined || length === null || Number(length) === 0);
}

/** Servers that say nothing close idle connections after 5 seconds, or 60, or 75. */
const usuallyKeptMs = 55_000;

function keptMsOf(headers: Fields): number {
  const seconds = /\btimeout=(\d{1,6})\b/i.exec(headers.get('keep-alive') ?? '')?.[1];
  if (seconds === undefined) return usuallyKeptMs;
  // A second less: a request that meets the close on its way is lost.
  return Math.max(0, Math.min((Number(seconds) - 1) * 1_000, usuallyKeptMs));
}
