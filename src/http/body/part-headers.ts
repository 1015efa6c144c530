import { invalidRequest } from '../../core/errors.ts';

interface PartHeaders {
  readonly name: string;
  /** Null for a field that is no file. */
  readonly filename: string | null;
}

/** The headers of one part of a form. */
export function readPartHeaders(text: string): PartHeaders {
  const headers = new Map<string, string>();
  for (const line of text.split('\r\n')) {
    const [, name, value = ''] = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*(.*)$/.exec(line) ?? [];
    if (name === undefined) throw invalidRequest('A part of the form has a malformed header.');
    const known = name.toLowerCase();
    if (headers.has(known)) throw invalidRequest(`A part of the form has two ${known} headers.`);
    headers.set(known, value);
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
    filename: extended(encoded) ?? parameters.get('filename') ?? encoded ?? null,
  };
}

const parameter = /;\s*([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))/g;

/** `name="a \"b\""`, or without quotes. Browsers write %22 for a quote, other tools a backslash. */
function readParameters(disposition: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [, name = '', quoted, plain = ''] of disposition.matchAll(parameter)) {
    const value = quoted === undefined ? plain : quoted.replaceAll(/\\(["\\])/g, '$1');
    found.set(name.toLowerCase(), value);
  }
  return found;
}

/** `UTF-8''a%20b` (RFC 5987); undefined in encodings other than the two that the RFC names. */
function extended(value = ''): string | undefined {
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
