import { formFieldsBytesMax, formHeaderBytesMax, formPartsMax } from '../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../core/errors.ts';
import type { FormFile, FormPart } from '../../core/form.ts';
import { type IncomingRequest, rejectContentEncoding } from './body.ts';
import { BodySource } from './body-source.ts';

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
  incoming: IncomingRequest,
  fileBytesMax: number,
  largerHint = '',
): AsyncGenerator<FormPart, void, void> {
  const { request } = incoming;
  const delimiter = Buffer.from(`\r\n--${readBoundary(request)}`, 'latin1');
  rejectContentEncoding(request);
  const body = new FormBody(new BodySource(request), delimiter);
  let fieldBytesLeft = formFieldsBytesMax;
  try {
    await body.skipPreamble();
    for (let partCount = 0; await body.hasPart(); partCount += 1) {
      if (partCount === formPartsMax) {
        throw invalidRequest(`The form has more than ${formPartsMax} parts.`);
      }
      const { name, filename } = readPartHeaders(await body.readHeaders());
      if (filename === null) {
        const value = await readField(name);
        if (name === 'model') incoming.requestedModel = value;
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
    const limitedChunks = body.limitedChunks(left, () =>
      partTooLarge(name, left, missingFilenameHint),
    );
    const bytes = Buffer.concat(await Array.fromAsync(limitedChunks));
    fieldBytesLeft -= bytes.length;
    try {
      return decoder.decode(bytes);
    } catch {
      throw invalidRequest(`${name} is not valid UTF-8${missingFilenameHint}.`, name);
    }
  }

  function fileOf(name: string, filename: string): FormFile {
    const tooLargeError = () => partTooLarge(name, fileBytesMax, largerHint);
    const chunks = body.limitedChunks(fileBytesMax, tooLargeError);
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
  async skipPreamble(): Promise<void> {
    const [lineBreak, first] = [this.#delimiter.subarray(0, 2), this.#delimiter.subarray(2)];
    const preamble = await this.#source.readUntil(first, preambleBytesMax);
    if (!preamble || (preamble.length > 0 && !preamble.subarray(-2).equals(lineBreak))) {
      throw invalidRequest('The form does not start with the boundary of its Content-Type.');
    }
  }

  /** After a delimiter there is a line break and another part, or two dashes and the end. */
  async hasPart(): Promise<boolean> {
    const next = await this.#afterPadding();
    if (next === '\r\n') {
      this.#isPartDone = false;
      return true;
    }
    if (next.startsWith('\n')) throw invalidRequest(bareLineFeeds);
    if (next !== '--') throw malformedForm();
    const rest = await this.#source.skipToEnd(epilogueBytesMax);
    if (rest > epilogueBytesMax) throw invalidRequest('The form goes on behind its last boundary.');
    return false;
  }

  async #afterPadding(): Promise<string> {
    const readCharacter = async () => (await this.#source.readExactly(1)).toString('latin1');
    let first = await readCharacter();
    for (let skipped = 0; skipped < paddingBytesMax && /[ \t]/.test(first); skipped += 1) {
      first = await readCharacter();
    }
    return first + (await readCharacter());
  }

  async readHeaders(): Promise<string> {
    const end = Buffer.from('\r\n\r\n');
    const found = await this.#source.readUntil(end, formHeaderBytesMax);
    if (found === undefined) {
      const max = formHeaderBytesMax;
      throw invalidRequest(`A part of the form has no end of its headers within ${max} bytes.`);
    }
    // A delimiter among the headers: they never ended.
    if (found.includes(this.#delimiter)) throw malformedForm();
    return found.toString('utf8');
  }

  /** What is left of the current part. */
  async *chunks(): AsyncGenerator<Uint8Array, void, void> {
    while (!this.#isPartDone) {
      const { bytes, isEnd } = await this.#source.readBefore(this.#delimiter);
      this.#isPartDone = isEnd;
      if (bytes.length > 0) yield bytes;
    }
  }

  async *limitedChunks(
    bytesMax: number,
    tooLargeError: () => GatewayError,
  ): AsyncGenerator<Uint8Array, void, void> {
    let bytes = 0;
    for await (const chunk of this.chunks()) {
      bytes += chunk.length;
      if (bytes > bytesMax) throw tooLargeError();
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

const bareLineFeeds = 'The form is malformed: its lines must end with CRLF, not with LF alone.';

/** For a client that forgot the filename: its file is refused as if it were a text. */
const missingFilenameHint = '; a file needs a filename';

export function partTooLarge(name: string, bytesMax: number, hint: string): GatewayError {
  const message = `${name} is larger than the ${bytesMax} bytes allowed here${hint}.`;
  return invalidRequest(message, name, 413);
}

function malformedForm(): GatewayError {
  return invalidRequest('The form is malformed: a part does not end where its boundary stands.');
}

interface PartHeaders {
  readonly name: string;
  /** Null for a field that is no file. */
  readonly filename: string | null;
}

/** The headers of one part of a form. */
function readPartHeaders(text: string): PartHeaders {
  const headers = new Map<string, string>();
  for (const line of text.split('\r\n')) {
    const [, name, value = ''] = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*(.*)$/.exec(line) ?? [];
    if (name === undefined) throw invalidRequest('A part of the form has a malformed header.');
    const lowerName = name.toLowerCase();
    if (headers.has(lowerName))
      throw invalidRequest(`A part of the form has two ${lowerName} headers.`);
    headers.set(lowerName, value);
  }
  const encoding = headers.get('content-transfer-encoding') ?? 'binary';
  if (!/^(?:binary|7bit|8bit)$/i.test(encoding.trim())) {
    throw invalidRequest('The form uses a Content-Transfer-Encoding; send the bytes as they are.');
  }
  const disposition = headers.get('content-disposition') ?? '';
  const parameters = readParameters(disposition);
  const name = parameters.get('name') ?? '';
  if (!/^form-data\s*;/i.test(disposition) || name === '') {
    throw invalidRequest('A part of the form has no name in its Content-Disposition.');
  }
  const encoded = parameters.get('filename*');
  return {
    name,
    filename: decodeExtended(encoded) ?? parameters.get('filename') ?? encoded ?? null,
  };
}

const parameterPattern = /;\s*([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))/g;

/** `name="a \"b\""`, or without quotes. Browsers write %22 for a quote, other tools a backslash. */
function readParameters(disposition: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [, name = '', quoted, plain = ''] of disposition.matchAll(parameterPattern)) {
    const value = quoted === undefined ? plain : quoted.replaceAll(/\\(["\\])/g, '$1');
    found.set(name.toLowerCase(), value);
  }
  return found;
}

/** `UTF-8''a%20b` (RFC 5987); undefined in encodings other than the two that the RFC names. */
function decodeExtended(value = ''): string | undefined {
  const [, charset = '', encoded = ''] = /^([\w-]+)'[^']*'(.*)$/.exec(value) ?? [];
  if (/^ISO-8859-1$/i.test(charset)) {
    return encoded.replaceAll(/%([\da-f]{2})/gi, (_, code) =>
      String.fromCharCode(Number(`0x${code}`)),
    );
  }
  if (!/^UTF-8$/i.test(charset)) return undefined;
  try {
    return decodeURIComponent(encoded);
  } catch {
    throw invalidRequest('A file name of the form has a broken percent-encoding.');
  }
}
