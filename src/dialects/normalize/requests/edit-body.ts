import { jsonDepthMax, jsonNamesMax } from '../../../core/bounds.ts';
import { isObject, type JsonObject } from '../../../core/json.ts';
import type { Edits, RawBody, SplicedBody } from '../../dialect.ts';
import { longNumber, parseExact } from '../exact-json.ts';
import { cacheKeyFields } from './prompt-cache.ts';
import { surchargedParameters } from './restricted-parameters.ts';

/** Edits a client's body for an upstream of the same dialect. */

type Body = Readonly<Record<string, unknown>>;

/** Fields for the gateway, which no upstream knows. */
export const gatewayFields: ReadonlySet<string> = new Set([
  'models',
  'provider',
  'route',
  'skills',
  'plugins',
]);

/**
 * Removes the fields with these names, and known fields that are null: clients write null for unset
 * fields, and some servers reject it.
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
  /** The body as the client sent it; null once `body` differs from it. */
  readonly source: RawBody | null;
}

/**
 * Writing a large body again costs more than all other work on a request. So if the edits only
 * change the model, which SDKs write first, or add fields, the client's text is kept after a new
 * start. If the model is removed, an added field takes its place.
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
  // Everything before `head` is ASCII, but the bytes may start with a byte order mark that `text`
  // lacks.
  const rest = bytes.subarray(bytes[0] === byteOrderMark ? head + 3 : head);
  return { start, rest };
}

/** Shorter bodies are faster to send in one piece. */
const splicedLengthMin = 16 * 1024;

/** The first byte of U+FEFF in UTF-8. No JSON starts with it. */
const byteOrderMark = 0xef;

/** Returns true if the edits only add fields or change the model. */
function onlyAdds(edits: Edits, body: Body): boolean {
  for (const name in edits) {
    if (name !== 'model' && (edits[name] === undefined || name in body)) return false;
  }
  return true;
}

const modelFirst = /^\s*\{\s*"model"\s*:\s*("[\x20\x21\x23-\x5b\x5d-\x7e]*")/;
/** A name without characters that JSON escapes. */
const plainName = /^[\w./:@+-]+$/;

/** Returns the end of `{"model":"…"` if the body starts with it. */
function modelField(text: string, model: unknown): number | undefined {
  const expected = `{"model":"${model}"`;
  if (text.startsWith(expected) && typeof model === 'string' && plainName.test(model)) {
    return expected.length;
  }
  const match = modelFirst.exec(text.slice(0, 300));
  return match && match[1] === JSON.stringify(model) ? match[0].length : undefined;
}

/**
 * Keeps integers beyond 2^53 exact, such as a limit in a tool's schema or an id in a call's
 * arguments. The gateway checks them as floats, but upstreams get the client's digits.
 */

/** Exactness costs time for each value, so bodies with millions of values are sent with floats. */
const bodyLimits = { levels: jsonDepthMax, names: jsonNamesMax, values: jsonNamesMax };

/** Returns the body with exact numbers; undefined if it has no long numbers. */
function parseExactBody(source: RawBody | null): Readonly<JsonObject> | undefined {
  if (source === null || !longNumber.test(source.text)) return undefined;
  const exact = parseExact(source.text, bodyLimits);
  return isObject(exact) ? exact : undefined;
}

/** Fields that contain the client's own JSON, in all dialects. */
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

/** Returns the body with exact numbers in the fields that contain the client's own JSON. */
export function withExactNumbers<RequestBody extends object>(
  body: RequestBody,
  source: RawBody | null,
): RequestBody {
  const exact = parseExactBody(source);
  if (exact === undefined) return body;
  const free = freeFields.filter((name) => Object.hasOwn(body, name));
  return { ...body, ...Object.fromEntries(free.map((name) => [name, exact[name]])) };
}

/** Finds duplicate fields: the gateway reads the last one, but a server may read the first. */

/** Fields that decide the model, the price, or the billed account, or that were checked. */
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
  ...cacheKeyFields,
].map((name) => ({ name, key: Buffer.from(`"${name}"`) }));

const anyEscape = Buffer.from('\\u00');
/** Escapes of letters, which could hide such a name and have no honest use. */
const escapedLetters = ['\\u005', '\\u006', '\\u007'].map((letter) => Buffer.from(letter));

/**
 * Returns true if the body may have one of these fields twice. A server that reads the first one,
 * or a second `model` after ours, would run what wasn't checked or priced. Nested fields count too,
 * which only costs the time to write the body again.
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
 * Returns the bytes that can contain names. Most of a large body may be one text, such as a
 * document or an image, with at least one byte per character. With `others` bytes outside of it,
 * everything before the text is within that many bytes of the start, and everything after it within
 * that many of the end.
 */
function excludeLargestText(bytes: Uint8Array, body: object): readonly Uint8Array[] {
  if (bytes.length < largeBytesMin) return [bytes];
  const length = largestText(body);
  const others = bytes.length - length;
  return others < length ? [bytes.subarray(0, others), bytes.subarray(length)] : [bytes];
}

/** Searching a smaller body is faster than finding its longest text. */
const largeBytesMin = 16 * 1024;
/** In a body with more values than this, a single one is rarely most of it. */
const valuesMax = 200;

/** Returns the length of the longest text among the first values of a body. */
function largestText(body: object): number {
  const values: unknown[] = [body];
  let longest = 0;
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index];
    if (typeof value === 'string') longest = Math.max(longest, value.length);
    else if (typeof value === 'object' && value !== null) {
      const inner: unknown[] = Array.isArray(value) ? value : Object.values(value);
      for (const child of inner) if (values.push(child) > valuesMax) return longest;
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
    for (
      let index = find(segment, pattern);
      index !== -1;
      index = find(segment, pattern, index + 1)
    ) {
      times += 1;
      if (times === 2) return true;
    }
  }
  return false;
}

/** Searching bytes is many times faster than text, and this call doesn't copy them. */
function find(bytes: Uint8Array, pattern: Buffer, from = 0): number {
  return Buffer.prototype.indexOf.call(bytes, pattern, from);
}

/** Handles unknown fields, some of which a server may read as known ones. */

const noFields = {};

/** Returns the fields that the gateway doesn't know. The provider may know them. */
export function unknownFields(body: object, known: object): Readonly<Record<string, unknown>> {
  const unknown = Object.entries(body).filter(
    ([name, value]) => !Object.hasOwn(known, name) && value !== null,
  );
  return unknown.length === 0 ? noFields : Object.fromEntries(unknown);
}

/** Returns the unknown fields to forward, without those that a server could read as known ones. */
export function forwardableFields(body: object, known: object): Readonly<Record<string, unknown>> {
  const unknown = Object.entries(unknownFields(body, known));
  return Object.fromEntries(unknown.filter(([name]) => !isLookalike(name, known)));
}

/** Nearly every name matches, and such a name can't be a look-alike. */
const smallName = /^[a-z0-9_]*$/;

/**
 * Returns true if a name differs from a known one only in case. Servers written in Go read `Model`
 * as `model` and use the last of the two, which wasn't checked or priced.
 */
function isLookalike(name: string, known: object): boolean {
  if (smallName.test(name) || Object.hasOwn(known, name)) return false;
  const folded = foldCase(name);
  return Object.hasOwn(known, folded) || surchargedParameters.has(folded);
}

/** Folds case as Go does when it compares names: the long s becomes s, the Kelvin sign k. */
export function foldCase(name: string): string {
  return name.toUpperCase().toLowerCase();
}

export function dropLookalikes(body: object, known: object, edits: Edits): void {
  for (const name in body) if (isLookalike(name, known)) edits[name] = undefined;
}

/**
 * Returns `before` itself if nothing changed. Writers compare identities to know whether they can
 * send the client's own text.
 */
export function sameIfUnchanged<List extends readonly unknown[]>(before: List, after: List): List {
  const isSame =
    after.length === before.length && after.every((item, index) => item === before[index]);
  return isSame ? before : after;
}
