import { formFieldsBytesMax, formHeaderBytesMax, formPartsMax } from '../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../core/errors.ts';
import type { FormFile, FormPart } from '../../core/form.ts';
import { type IncomingRequest, rejectContentEncoding } from './body.ts';
import { requestBody, withholdsBody } from './expect-continue.ts';
import { FormSource } from './form-source.ts';

const decoder = new TextDecoder('utf-8', { fatal: true });

/** Bytes allowed before the first part and after the last. They are ignored. */
const preambleBytesMax = 1024;
const epilogueBytesMax = 1024;

/** Spaces after a boundary, which RFC 2046 allows. */
const paddingBytesMax = 64;

/**
 * Reads a form (multipart/form-data) part by part as it arrives. Files aren't buffered in memory:
 * read the chunks of a file part before you request the next part; unread chunks are skipped.
 * Throws 400, 413, 415.
 */
export async function* readForm(
  incoming: IncomingRequest,
  fileBytesMax: number,
  largerHint = '',
): AsyncGenerator<FormPart, void, void> {
  const { request } = incoming;
  const delimiter = Buffer.from(`\r\n--${readBoundary(request)}`, 'latin1');
  rejectContentEncoding(request);
  if (withholdsBody(request)) await requestBody(request);
  const body = new FormBody(new FormSource(request), delimiter);
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
          // Skip unread chunks.
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
      throw invalidRequest(`${name} isn't valid UTF-8${missingFilenameHint}.`, name);
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
  readonly #source: FormSource;
  readonly #delimiter: Buffer;
  /** True once the current part has been read to its delimiter. */
  #isPartDone = true;

  constructor(source: FormSource, delimiter: Buffer) {
    this.#source = source;
    this.#delimiter = delimiter;
  }

  /** Finds the first delimiter, which must be at the start of a line. */
  async skipPreamble(): Promise<void> {
    const [lineBreak, first] = [this.#delimiter.subarray(0, 2), this.#delimiter.subarray(2)];
    const preamble = await this.#source.readUntil(first, preambleBytesMax);
    if (!preamble || (preamble.length > 0 && !preamble.subarray(-2).equals(lineBreak))) {
      throw invalidRequest("The form doesn't start with the boundary in its Content-Type.");
    }
  }

  /**
   * Returns whether another part follows the delimiter: a line break precedes a part, and two
   * hyphens mark the end of the form.
   */
  async hasPart(): Promise<boolean> {
    const next = await this.#afterPadding();
    if (next === '\r\n') {
      this.#isPartDone = false;
      return true;
    }
    if (next.startsWith('\n')) throw invalidRequest(bareLineFeeds);
    if (next !== '--') throw malformedForm();
    const rest = await this.#source.skipToEnd(epilogueBytesMax);
    if (rest > epilogueBytesMax)
      throw invalidRequest('The form has data after its closing boundary.');
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
      throw invalidRequest(`The headers of a part are longer than ${max} bytes.`);
    }
    // The headers don't end before the next delimiter.
    if (found.includes(this.#delimiter)) throw malformedForm();
    return found.toString('utf8');
  }

  /** Yields the rest of the current part. */
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
    const found = type.split(';')[0]?.trim();
    const message = found
      ? `Content-Type must be multipart/form-data, not ${found}.`
      : 'Content-Type is missing. Send multipart/form-data.';
    throw invalidRequest(message, undefined, 415);
  }
  const [, quoted, plain] = /;\s*boundary=(?:"([^"]*)"|([^\s;]+))/i.exec(type) ?? [];
  const boundary = quoted ?? plain ?? '';
  // RFC 2046 allows fewer characters, but clients also use others.
  if (/^[\x21-\x7e ]{0,199}[\x21-\x7e]$/.test(boundary)) return boundary;
  throw invalidRequest('The Content-Type of the form must have a boundary of 1 to 200 characters.');
}

const bareLineFeeds = 'The form is malformed: its lines must end with CRLF, not LF.';

/** Without a filename, a file is read as a text field. */
const missingFilenameHint = '; a file must have a filename';

export function partTooLarge(name: string, bytesMax: number, hint: string): GatewayError {
  const message = `${name} is larger than the maximum of ${bytesMax} bytes${hint}.`;
  return invalidRequest(message, name, 413);
}

function malformedForm(): GatewayError {
  return invalidRequest("The form is malformed: a part doesn't end at a boundary.");
}

interface PartHeaders {
  readonly name: string;
  /** Null for a field that isn't a file. */
  readonly filename: string | null;
}

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
    throw invalidRequest(
      "Content-Transfer-Encoding isn't supported in a form. Send the bytes unencoded.",
    );
  }
  const disposition = headers.get('content-disposition') ?? '';
  const parameters = readParameters(disposition);
  const name = parameters.get('name') ?? '';
  if (!/^form-data\s*;/i.test(disposition) || name === '') {
    throw invalidRequest('A part of the form has no name in its Content-Disposition header.');
  }
  const encoded = parameters.get('filename*');
  return {
    name,
    filename: decodeExtended(encoded) ?? parameters.get('filename') ?? encoded ?? null,
  };
}

const parameterPattern = /;\s*([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))/g;

/** Reads quoted and unquoted parameters. Browsers write %22 for a quote, other tools \". */
function readParameters(disposition: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [, name = '', quoted, plain = ''] of disposition.matchAll(parameterPattern)) {
    const value = quoted === undefined ? plain : quoted.replaceAll(/\\(["\\])/g, '$1');
    found.set(name.toLowerCase(), value);
  }
  return found;
}

/** Decodes `UTF-8''a%20b` (RFC 5987). Returns undefined for an unknown charset. */
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
    throw invalidRequest('A filename in the form has invalid percent-encoding.');
  }
}
