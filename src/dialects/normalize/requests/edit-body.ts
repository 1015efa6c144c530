import { jsonDepthMax, jsonNamesMax } from '../../../core/bounds.ts';
import { type Fields, isObject } from '../../../core/json.ts';
import type { Edits, RawBody, SplicedBody } from '../../dialect.ts';
import { longNumber, parseExact } from '../exact-json.ts';
import { cacheNames } from './prompt-cache.ts';
import { surchargedParameters } from './restricted-parameters.ts';

/** A client's body for an upstream that speaks the same dialect: the same but for a few fields. */

type Body = Readonly<Record<string, unknown>>;

/** Fields that are meant for the gateway; no upstream knows them. */
export const gatewayFields: ReadonlySet<string> = new Set([
  'models',
  'provider',
  'route',
  'skills',
  'plugins',
]);

/**
 * Leaves out the fields of these names. Clients write null for fields that they did not set: known
 * fields that are null are left out, too, because some servers refuse them.
 */
export function dropFields(
  body: Body,
  names: ReadonlySet<string>,
  edits: Edits,
  known: object = {},
): void {
  for (const name in body) {
    const isUnset = body[name] === null && Object.hasOwn(known, name);
    if (isUnset || names.has(name)) edits[name] = undefined;
  }
}

interface EditableRequest {
  readonly body: Body;
  /** The bytes that the client sent; null once `body` no longer says the same. */
  readonly source: RawBody | null;
}

/**
 * Writing a large body again costs more than everything else on the way. So when the only changes
 * are the model's name, standing first in the body as SDKs write it, and fields that were not
 * there before, the client's text follows a new beginning. Another field may stand there instead
 * of a model that is left out.
 */
export function editBody({ body, source }: EditableRequest, edits: Edits): string | SplicedBody {
  const head = source && onlyAdds(edits, body) ? modelField(source.text, body.model) : undefined;
  if (head === undefined || !source || hasDuplicateNames(source.bytes, body)) {
    return JSON.stringify({ ...(parseExactBody(source) ?? body), ...edits });
  }
  let start = '{';
  for (const name in edits) {
    const value = edits[name];
    if (value === undefined) continue;
    start += `${start === '{' ? '' : ','}"${name}":${JSON.stringify(value)}`;
  }
  const { text, bytes } = source;
  if (text.length < splicedLengthMin) return start + text.slice(head);
  // All before `head` is ASCII, but the bytes may begin with a byte order mark that `text` lacks.
  const rest = bytes.subarray(bytes[0] === byteOrderMark ? head + 3 : head);
  return { start, rest };
}

/** Shorter bodies are sent faster in one piece. */
const splicedLengthMin = 16 * 1024;

/** The first byte of U+FEFF in UTF-8; no JSON begins with it. */
const byteOrderMark = 0xef;

/** Whether the edits only add fields or change the model's name. */
function onlyAdds(edits: Edits, body: Body): boolean {
  for (const name in edits) {
    if (name !== 'model' && (edits[name] === undefined || name in body)) return false;
  }
  return true;
}

const modelFirst = /^\s*\{\s*"model"\s*:\s*("[\x20\x21\x23-\x5b\x5d-\x7e]*")/;
/** A name that JSON writes without escapes. */
const plainName = /^[\w./:@+-]+$/;

/** Where `{"model":"…"` ends, if the body starts with it. */
function modelField(text: string, model: unknown): number | undefined {
  const expected = `{"model":"${model}"`;
  if (text.startsWith(expected) && typeof model === 'string' && plainName.test(model)) {
    return expected.length;
  }
  const match = modelFirst.exec(text.slice(0, 300));
  return match && match[1] === JSON.stringify(model) ? match[0].length : undefined;
}

/**
 * Requests with integers beyond 2^53, such as the largest 64-bit integer in a tool's schema, or an
 * id in the arguments of a call. The gateway checks and counts them as floats, but upstreams get
 * the digits that the client wrote.
 */

/** Exactness costs time for each value, so a body of millions of values is sent with floats. */
const bodyLimits = { levels: jsonDepthMax, names: jsonNamesMax, values: jsonNamesMax };

/** The client's body with exact numbers; undefined if none of its numbers is long. */
function parseExactBody(source: RawBody | null): Readonly<Fields> | undefined {
  if (source === null || !longNumber.test(source.text)) return undefined;
  const exact = parseExact(source.text, bodyLimits);
  return isObject(exact) ? exact : undefined;
}

/** Fields in which clients put JSON of their own, in all dialects. */
const freeFields = [
  'messages',
  'input',
  'tools',
  'functions',
  'response_format',
  'output_config',
  'output_format',
  'text',
];

/** The body to translate, with exact numbers in the fields that hold JSON of the client's own. */
export function withExactNumbers<RequestBody extends object>(
  body: RequestBody,
  source: RawBody | null,
): RequestBody {
  const exact = parseExactBody(source);
  if (exact === undefined) return body;
  const free = freeFields.filter((name) => Object.hasOwn(body, name));
  return { ...body, ...Object.fromEntries(free.map((name) => [name, exact[name]])) };
}

/** Finds fields that a body has twice: we read the last one, but a server may read the first. */

/** Fields that decide which model is called, for how much and for whom, or that were checked. */
const checkedNames = [
  'model',
  'messages',
  'input',
  'system',
  'tools',
  'max_tokens',
  'max_completion_tokens',
  'n',
  'max_output_tokens',
  'store',
  'background',
  'previous_response_id',
  'conversation',
  'prompt',
  'stream',
  'stream_options',
  'inference_geo',
  'access_programs',
  ...surchargedParameters.keys(),
  ...cacheNames,
].map((name) => ({ name, key: Buffer.from(`"${name}"`) }));

const anyEscape = Buffer.from('\\u00');
/** Escapes of letters, which could hide such a name and serve no honest purpose. */
const escapedLetters = ['\\u005', '\\u006', '\\u007'].map((letter) => Buffer.from(letter));

/**
 * Whether a body may have a decisive field twice. A server that reads the first one, or a second
 * `model` after ours, would do what was not checked or priced. The same name deeper inside counts,
 * too, which only costs the time to write the body again.
 */
function hasDuplicateNames(bytes: Uint8Array, body: object): boolean {
  const segments = excludeLargestText(bytes, body);
  if (isIn(segments, anyEscape) && escapedLetters.some((letter) => isIn(segments, letter)))
    return true;
  for (const { name, key } of checkedNames) {
    if (name in body && isTwiceIn(segments, key)) return true;
  }
  return false;
}

/**
 * The bytes in which names can stand. Most of a large body may be one text, such as a document or a
 * picture, with at least one byte for each character. Let `others` be the bytes that are left: all
 * that precedes the text is within that many of the start, and all that follows it, of the end.
 */
function excludeLargestText(bytes: Uint8Array, body: object): readonly Uint8Array[] {
  if (bytes.length < largeBytesMin) return [bytes];
  const length = largestText(body);
  const others = bytes.length - length;
  return others < length ? [bytes.subarray(0, others), bytes.subarray(length)] : [bytes];
}

/** Smaller bodies are searched faster than their longest text is found. */
const largeBytesMin = 16 * 1024;
/** If a body has more values than this, hardly one of them is most of it. */
const valuesMax = 200;

/** The length of the longest text among the first values of a body. */
function largestText(body: object): number {
  const values: unknown[] = [body];
  let longest = 0;
  for (let at = 0; at < values.length; at += 1) {
    const value = values[at];
    if (typeof value === 'string') longest = Math.max(longest, value.length);
    else if (typeof value === 'object' && value !== null) {
      const inner: unknown[] = Array.isArray(value) ? value : Object.values(value);
      for (const one of inner) if (values.push(one) > valuesMax) return longest;
    }
  }
  return longest;
}

function isIn(segments: readonly Uint8Array[], pattern: Buffer): boolean {
  return segments.some((segment) => find(segment, pattern) !== -1);
}

function isTwiceIn(segments: readonly Uint8Array[], pattern: Buffer): boolean {
  let times = 0;
  for (const segment of segments) {
    for (let at = find(segment, pattern); at !== -1; at = find(segment, pattern, at + 1)) {
      times += 1;
      if (times === 2) return true;
    }
  }
  return false;
}

/** Bytes are searched many times faster than text; this call takes them without a copy. */
function find(bytes: Uint8Array, pattern: Buffer, from = 0): number {
  return Buffer.prototype.indexOf.call(bytes, pattern, from);
}

/** Fields that we do not know, a few of which some servers read as known ones. */

const noFields = {};

/** The fields of a request that are unknown to us; its provider may know them. */
export function unknownFields(body: object, known: object): Readonly<Record<string, unknown>> {
  const unknown = Object.entries(body).filter(
    ([name, value]) => !Object.hasOwn(known, name) && value !== null,
  );
  return unknown.length === 0 ? noFields : Object.fromEntries(unknown);
}

/** The unknown fields to send beside known ones: none that a server could read as a known one. */
export function forwardableFields(body: object, known: object): Readonly<Record<string, unknown>> {
  const unknown = Object.entries(unknownFields(body, known));
  return Object.fromEntries(unknown.filter(([name]) => !isLookalike(name, known)));
}

/** Nearly every name is written so, and such a name cannot be a look-alike. */
const smallName = /^[a-z0-9_]*$/;

/**
 * Whether a name differs from a known one only in capitals. Servers written in Go read `Model` as
 * `model` and take the last of the two, which was neither checked nor priced.
 */
function isLookalike(name: string, known: object): boolean {
  if (smallName.test(name) || Object.hasOwn(known, name)) return false;
  const word = foldCase(name);
  return Object.hasOwn(known, word) || surchargedParameters.has(word);
}

/**
 * Folds capitals as Go does when it compares names: the long s is an s, the Kelvin sign a k.
 */
export function foldCase(name: string): string {
  return name.toUpperCase().toLowerCase();
}

export function dropLookalikes(body: object, known: object, edits: Edits): void {
  for (const name in body) if (isLookalike(name, known)) edits[name] = undefined;
}

/**
 * Returns the very list from before if nothing in it was changed. By that identity the code that
 * writes the body knows that it can send the client's own text.
 */
export function sameIfUnchanged<List extends readonly unknown[]>(before: List, after: List): List {
  const isSame = after.length === before.length && after.every((one, at) => one === before[at]);
  return isSame ? before : after;
}
