import { formFieldsBytesMax, formHeaderBytesMax, formPartsMax } from '../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../core/errors.ts';
import type { FormFile, FormPart } from '../../core/form.ts';
import { type Posted, refuseEncodings } from './body.ts';
import { BodySource } from './body-source.ts';
import { readPartHeaders } from './part-headers.ts';

const decoder = new TextDecoder('utf-8', { fatal: true });

/**
 * Bytes allowed before the first part and after the last: a line break, or text that is ignored.
 */
const preambleBytesMax = 1024;
const epilogueBytesMax = 1024;

/** Blanks after a boundary, as mail gateways used to leave there. */
const paddingBytesMax = 64;

/**
 * Reads a form (multipart/form-data) part by part as it arrives. Files are never held in memory:
 * the chunks of a file part must be taken before the next part is asked for; what is left of them
 * is skipped.
 */
export async function* readForm(
  posted: Posted,
  fileBytesMax: number,
  largerHint = '',
): AsyncGenerator<FormPart, void, void> {
  const { request } = posted;
  const delimiter = Buffer.from(`\r\n--${readBoundary(request)}`, 'latin1');
  refuseEncodings(request);
  const body = new FormBody(new BodySource(request), delimiter);
  let fieldBytesLeft = formFieldsBytesMax;
  try {
    await body.start();
    for (let parts = 0; await body.hasPart(); parts += 1) {
      if (parts === formPartsMax) {
        throw invalidRequest(`The form has more than ${formPartsMax} parts.`);
      }
      const { name, filename } = readPartHeaders(await body.headers());
      if (filename === null) {
        const value = await readField(name);
        if (name === 'model') posted.modelNamed = value;
        yield { kind: 'field', name, value };
      } else {
        yield fileOf(name, filename);
        for await (const _ of body.chunks()) {
          // What nobody wanted.
        }
      }
    }
  } finally {
    await body.close();
  }

  async function readField(name: string): Promise<string> {
    const left = fieldBytesLeft;
    const limited = body.limited(left, () => partTooLarge(name, left, noFile));
    const bytes = Buffer.concat(await Array.fromAsync(limited));
    fieldBytesLeft -= bytes.length;
    try {
      return decoder.decode(bytes);
    } catch {
      throw invalidRequest(`${name} is not valid UTF-8${noFile}.`, name);
    }
  }

  function fileOf(name: string, filename: string): FormFile {
    const refuse = () => partTooLarge(name, fileBytesMax, largerHint);
    const chunks = body.limited(fileBytesMax, refuse);
    return { kind: 'file', name, filename, chunks };
  }
}

/** The bytes of a form between its delimiters. */
class FormBody {
  readonly #source: BodySource;
  readonly #delimiter: Buffer;
  /** Whether the current part has been read to its delimiter. */
  #isPartDone = true;

  constructor(source: BodySource, delimiter: Buffer) {
    this.#source = source;
    this.#delimiter = delimiter;
  }

  /** Finds the first delimiter: at the very beginning, or at that of a later line. */
  async start(): Promise<void> {
    const [lineBreak, first] = [this.#delimiter.subarray(0, 2), this.#delimiter.subarray(2)];
    const preamble = await this.#source.until(first, preambleBytesMax);
    if (!preamble || (preamble.length > 0 && !preamble.subarray(-2).equals(lineBreak))) {
      throw invalidRequest('The form does not start with the boundary of its Content-Type.');
    }
  }

  /** After a delimiter there is a line break and another part, or two dashes and the end. */
  async hasPart(): Promise<boolean> {
    const next = await this.#behindPadding();
    if (next === '\r\n') {
      this.#isPartDone = false;
      return true;
    }
    if (next.startsWith('\n')) throw invalidRequest(bareLines);
    if (next !== '--') throw broken();
    const rest = await this.#source.drain(epilogueBytesMax);
    if (rest > epilogueBytesMax) throw invalidRequest('The form goes on behind its last boundary.');
    return false;
  }

  async #behindPadding(): Promise<string> {
    const take = async () => (await this.#source.take(1)).toString('latin1');
    let first = await take();
    for (let taken = 0; taken < paddingBytesMax && /[ \t]/.test(first); taken += 1) {
      first = await take();
    }
    return first + (await take());
  }

  async headers(): Promise<string> {
    const end = Buffer.from('\r\n\r\n');
    const found = await this.#source.until(end, formHeaderBytesMax);
    if (found === undefined) {
      const most = formHeaderBytesMax;
      throw invalidRequest(`A part of the form has no end of its headers within ${most} bytes.`);
    }
    // A delimiter among the headers: they never ended.
    if (found.includes(this.#delimiter)) throw broken();
    return found.toString('utf8');
  }

  /** What is left of the current part. */
  async *chunks(): AsyncGenerator<Uint8Array, void, void> {
    while (!this.#isPartDone) {
      const { bytes, isEnd } = await this.#source.before(this.#delimiter);
      this.#isPartDone = isEnd;
      if (bytes.length > 0) yield bytes;
    }
  }

  async *limited(
    bytesMax: number,
    refuse: () => GatewayError,
  ): AsyncGenerator<Uint8Array, void, void> {
    let bytes = 0;
    for await (const chunk of this.chunks()) {
      bytes += chunk.length;
      if (bytes > bytesMax) throw refuse();
      yield chunk;
    }
  }

  close(): Promise<void> {
    return this.#source.close();
  }
}

function readBoundary(request: Request): string {
  const type = request.headers.get('content-type') ?? '';
  if (!/^multipart\/form-data\s*(?:;|$)/i.test(type)) {
    const found = type.split(';')[0]?.trim() || 'missing';
    const message = `Content-Type must be multipart/form-data, not ${found}.`;
    throw invalidRequest(message, undefined, 415);
  }
  const [, quoted, plain] = /;\s*boundary=(?:"([^"]*)"|([^\s;]+))/i.exec(type) ?? [];
  const boundary = quoted ?? plain ?? '';
  // The characters that RFC 2046 allows, and those that clients use all the same.
  if (/^[\x21-\x7e ]{0,199}[\x21-\x7e]$/.test(boundary)) return boundary;
  throw invalidRequest('The Content-Type of the form has no boundary of 1 to 200 characters.');
}

const bareLines = 'The form is malformed: its lines must end with CRLF, not with LF alone.';

/** For a client that forgot the filename: its file is refused as if it were a text. */
const noFile = '; a file needs a filename';

export function partTooLarge(name: string, bytesMax: number, hint: string): GatewayError {
  const message = `${name} is larger than the ${bytesMax} bytes allowed here${hint}.`;
  return invalidRequest(message, name, 413);
}

function broken(): GatewayError {
  return invalidRequest('The form is malformed: a part does not end where its boundary stands.');
}
