import { type GatewayError, invalidRequest } from './errors.ts';
import { parseJson } from './json.ts';

/** A form as it arrives: fields with their text, files as streams. */
export type FormPart = FormField | FormFile;

interface FormField {
  readonly kind: 'field';
  readonly name: string;
  readonly value: string;
}

export interface FormFile {
  readonly kind: 'file';
  readonly name: string;
  /** As the client wrote it: a claim, never a path. */
  readonly filename: string;
  /** The bytes as they come; to be read once. */
  readonly chunks: AsyncIterable<Uint8Array>;
}

/** Forms may repeat a field; whether that makes sense is for its reader to say. */
export function addField(fields: Map<string, string[]>, { name, value }: FormField): void {
  fields.set(name, [...(fields.get(name) ?? []), value]);
}

/**
 * The list that a field is an entry of: `name[]`, or `name[0]` where no name can be written twice,
 * as in PHP.
 */
export function formListName(field: string): string {
  return field.replace(/\[\d*\]$/, '');
}

/**
 * A list in a form: a field for each entry, as OpenAI's libraries send it, or all in one text, as
 * JSON or with commas between. What was left blank is none. Unchecked, as JSON is.
 */
export function parseFormList(texts: readonly string[]): readonly unknown[] {
  return texts.flatMap((text) => {
    const list = text.trimStart().startsWith('[') ? parseJson(text) : undefined;
    if (Array.isArray(list)) return list as unknown[];
    const entries = text.split(',').map((entry) => entry.trim());
    return entries.filter((entry) => entry !== '');
  });
}

/** A digit can match in one place only: a long row of them must not be tried in every way. */
const number = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i;

/** A number as any language writes one; anything else stays text, for whoever checks it. */
export function parseFormNumber(text: string): number | string {
  return number.test(text) ? Number(text) : text;
}

/** A yes or no as forms write it; anything else stays text, for whoever checks it. */
export function parseFormFlag(text: string): boolean | string {
  if (text === 'true') return true;
  return text === 'false' ? false : text;
}

export function duplicateField(name: string): GatewayError {
  return invalidRequest(`${name} is given twice.`, name);
}

export function mustBeText(name: string): GatewayError {
  return invalidRequest(`${name} must be a text, not a file.`, name);
}

/** Mentions the filename: a file that was sent without one arrives as a text. */
export function mustBeFile(name: string): GatewayError {
  return invalidRequest(`${name} must be a file, not a text; a file needs a filename.`, name);
}

/** Bytes that are too many to be held: a file of a client, or a request that carries one. */
export interface LongBytes {
  readonly bytes: number;
  /** From the beginning, as often as wanted. */
  chunks(): AsyncIterable<Uint8Array>;
}

/** A file that a client sent, put aside until its request has ended. */
export interface Upload extends LongBytes {
  readonly sha256: string;
  /** At most this many of its first bytes. */
  start(bytesMax: number): Promise<Uint8Array>;
}

/** Where the files of one request lie. */
export interface UploadDirectory {
  /** Takes the bytes as they come; when their source fails, nothing stays. */
  keep(chunks: AsyncIterable<Uint8Array>): Promise<Upload>;
  /** Throws everything away. Safe to call again. */
  clear(): Promise<void>;
}
