import { invalidRequest } from '../../core/errors.ts';

export interface PartHeaders {
  readonly name: string;
  /** Null for a field that is no file. */
  readonly filename: string | null;
  readonly contentType: string;
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
  const name = parameter(disposition, 'name') ?? '';
  if (!/^form-data\s*;/i.test(disposition) || name === '') {
    throw invalidRequest('A part of the form has no name in its Content-Disposition.');
  }
  return {
    name,
    filename: extended(disposition) ?? parameter(disposition, 'filename') ?? null,
    contentType: headers.get('content-type')?.trim() || 'application/octet-stream',
  };
}

/** `name="a \"b\""`, or without quotes. Browsers write %22 for a quote, other tools a backslash. */
function parameter(disposition: string, name: string): string | undefined {
  const pattern = new RegExp(`;\\s*${name}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s;"]*))`, 'i');
  const [found, quoted, plain] = pattern.exec(disposition) ?? [];
  if (found === undefined) return undefined;
  return quoted === undefined ? plain : quoted.replaceAll(/\\(["\\])/g, '$1');
}

/** `filename*=UTF-8''a%20b` (RFC 5987). */
function extended(disposition: string): string | undefined {
  const [, encoded] = /;\s*filename\*=UTF-8'[^']*'([^\s;]+)/i.exec(disposition) ?? [];
  if (encoded === undefined) return undefined;
  try {
    return decodeURIComponent(encoded);
  } catch {
    throw invalidRequest('A file name of the form has a broken percent-encoding.');
  }
}
