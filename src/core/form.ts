import { type GatewayError, invalidRequest } from './errors.ts';
import { parseJson } from './json.ts';

/** A part of a form in order of arrival: a field with its text, or a file as a stream. */
export type FormPart = FormField | FormFile;

interface FormField {
  readonly kind: 'field';
  readonly name: string;
  readonly value: string;
}

export interface FormFile {
  readonly kind: 'file';
  readonly name: string;
  /** As the client sent it; never used as a path. */
  readonly filename: string;
  /** The bytes as they arrive. Can be read once. */
  readonly chunks: AsyncIterable<Uint8Array>;
}

/** Adds a value to a field, which a form can repeat. */
export function addField(fields: Map<string, string[]>, { name, value }: FormField): void {
  fields.set(name, [...(fields.get(name) ?? []), value]);
}

/** Returns the list's name for an item's field: `name[]`, or `name[0]` from clients such as PHP. */
export function formListName(field: string): string {
  return field.replace(/\[\d*\]$/, '');
}

/**
 * Parses a list in a form: a field per item, as OpenAI's SDKs send it, or one string with JSON
 * or commas. Skips blank items. Doesn't validate the items.
 */
export function parseFormList(texts: readonly string[]): readonly unknown[] {
  return texts.flatMap((text) => {
    const list = text.trimStart().startsWith('[') ? parseJson(text) : undefined;
    if (Array.isArray(list)) return list as unknown[];
    const entries = text.split(',').map((entry) => entry.trim());
    return entries.filter((entry) => entry !== '');
  });
}

/** Each digit can match in only one way, so that a long row of digits doesn't backtrack. */
const number = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i;

/** Parses a number, or returns other text unchanged for the validation. */
export function parseFormNumber(text: string): number | string {
  return number.test(text) ? Number(text) : text;
}

/** Parses `true` or `false`, or returns other text unchanged for the validation. */
export function parseFormFlag(text: string): boolean | string {
  if (text === 'true') return true;
  return text === 'false' ? false : text;
}

export function duplicateField(name: string): GatewayError {
  return invalidRequest(`${name} appears twice.`, name);
}

export function mustBeText(name: string): GatewayError {
  return invalidRequest(`${name} must be text, not a file.`, name);
}

/** Mentions the filename, because a file sent without one arrives as text. */
export function mustBeFile(name: string): GatewayError {
  return invalidRequest(`${name} must be a file with a filename, not text.`, name);
}

/** Content too long to hold in memory: a client's file, or a request with one. */
export interface StreamedContent {
  readonly bytes: number;
  /** Reads from the start. Can be called repeatedly. */
  chunks(): AsyncIterable<Uint8Array>;
}

/** A client's file, stored until its request has ended. */
export interface Upload extends StreamedContent {
  readonly sha256: string;
  /** Reads up to this many bytes from the start. */
  start(bytesMax: number): Promise<Uint8Array>;
}

/** Stores the files of one request. */
export interface UploadDirectory {
  /** Stores the bytes as they arrive. If the source fails, nothing is stored. */
  store(chunks: AsyncIterable<Uint8Array>): Promise<Upload>;
  /** Deletes all files. Can be called repeatedly. */
  clear(): Promise<void>;
}
