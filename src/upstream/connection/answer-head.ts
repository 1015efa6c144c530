import { answerHeadBytesMax } from '../../core/bounds.ts';
import type { AnswerHeaders } from './answer.ts';
import { notHttp } from './broken-answer.ts';
import { Chunked, type Framing, Sized, Unsized } from './framing.ts';

/** What stands before an answer's body. */
export interface AnswerHead {
  readonly status: number;
  readonly headers: AnswerHeaders;
  /** Undefined where no body follows. */
  readonly framing: Framing | undefined;
  /**
   * How long the connection may be idle afterwards and still be used; 0: it ends with this answer.
   */
  readonly keptMs: number;
  /** The length of the head, with the empty line behind it. */
  readonly bytes: number;
}

/**
 * The head that these bytes begin with; undefined while it is not whole. Throws if there is none.
 */
export function readHead(bytes: Buffer): AnswerHead | undefined {
  const isMore = bytes.length > answerHeadBytesMax;
  // Looks no further than a head can reach: of thousands of short answers that came at once, each
  // would otherwise search all that follow it.
  const end = endOf(isMore ? bytes.subarray(0, answerHeadBytesMax) : bytes);
  if (end === undefined) {
    if (isMore) throw notHttp('more headers than anybody needs');
    if (!isBeginning(bytes)) throw notHttp('something that is no HTTP');
    return undefined;
  }
  const { text } = end;
  const opening = statusLine.exec(text);
  if (!opening) throw notHttp('something that is no HTTP');
  const status = Number(opening[2]);
  if (status === 101) throw notHttp('an offer to speak something else');
  if (!headerLines.test(text)) throw notHttp('a header that is none');
  const headers = new HeaderFields(text);
  const framing = framingOf(status, headers);
  const isKept = isClear(headers, framing, opening[1] !== '0');
  return { status, headers, framing, keptMs: isKept ? keptMsOf(headers) : 0, bytes: end.bytes };
}

const statusLine = /^HTTP\/1\.(\d) +([1-9]\d\d)(?: [^\r\n]*)?\r?(?:\n|$)/;
/**
 * No control characters: a line that ends in its middle may be two. All lines are checked at once:
 * providers send twenty and more, of which few are ever read.
 */
const headerLines = /^[^\n]*(?:\n[\w!#$%&'*+\-.^`|~]+:[\t\x20-\x7e\x80-\xff]*\r?)*$/;

function isBeginning(bytes: Buffer): boolean {
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
function endOf(bytes: Buffer): HeadEnd | undefined {
  const usual = bytes.indexOf(emptyLine);
  // The head may come a byte at a time: it is turned into text only once.
  if (usual < 0 && !bytes.includes(oddLine)) return undefined;
  const text = bytes.toString('latin1', 0, usual < 0 ? bytes.length : usual);
  const odd = text.indexOf('\n\n');
  if (odd >= 0) return { text: text.slice(0, odd), bytes: odd + 2 };
  return { text, bytes: usual + emptyLine.length };
}

/** Headers that are read in every answer are found in one go; others are looked for one by one. */
const often: ReadonlySet<string> = new Set([
  'transfer-encoding',
  'content-length',
  'content-type',
  'content-encoding',
  'connection',
  'keep-alive',
]);

class HeaderFields implements AnswerHeaders {
  readonly #text: string;
  readonly #often: ReadonlyMap<string, string>;

  constructor(text: string) {
    this.#text = text;
    this.#often = valuesIn(text, oftenLines);
  }

  get(name: string): string | null {
    const values = often.has(name) ? this.#often : valuesIn(this.#text, linesNamed(name));
    return values.get(name) ?? null;
  }
}

/** The names are our own: none has a character with a meaning in a regular expression. */
const linesNamed = (...names: readonly string[]) =>
  new RegExp(`\\n(${names.join('|')}):([^\\r\\n]*)`, 'gi');

const oftenLines = linesNamed(...often);

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
  const coding = headers.get('transfer-encoding')?.toLowerCase().replace(asItIs, '') ?? '';
  const length = headers.get('content-length');
  if (coding === 'chunked') return new Chunked();
  if (coding !== '') throw notHttp('an answer in a coding that was not asked for');
  if (length === null) return new Unsized();
  const bytes = /^0*(\d{1,15})(?:, 0*\1)*$/.exec(length)?.[1];
  if (bytes === undefined) throw notHttp('an answer of no clear length');
  return new Sized(Number(bytes));
}

/** `identity` says that there is no coding. HTTP dropped the word, but it is still sent. */
const asItIs = /^identity(?:, |$)/;

/** Whether we and the server surely agree where the next answer begins. */
function isClear(headers: HeaderFields, framing: Framing | undefined, isNew: boolean): boolean {
  if (framing instanceof Unsized) return false;
  const connection = headers.get('connection')?.toLowerCase() ?? '';
  const isKept = isNew ? !connection.includes('close') : connection.includes('keep-alive');
  const length = headers.get('content-length');
  // A length beside chunks, or chunks in HTTP/1.0, may come from two servers that disagree.
  const isCoded = headers.get('transfer-encoding') !== null;
  if (isCoded) return isKept && isNew && framing !== undefined && length === null;
  // Some servers send a body with a status that cannot have one.
  return isKept && (framing !== undefined || length === null || Number(length) === 0);
}

/** Servers that say nothing close idle connections after 5 seconds, or 60, or 75. */
const usuallyKeptMs = 55_000;

function keptMsOf(headers: HeaderFields): number {
  const seconds = /\btimeout=(\d{1,6})\b/i.exec(headers.get('keep-alive') ?? '')?.[1];
  if (seconds === undefined) return usuallyKeptMs;
  // A second less: a request that meets the close on its way is lost.
  return Math.max(0, Math.min((Number(seconds) - 1) * 1_000, usuallyKeptMs));
}
