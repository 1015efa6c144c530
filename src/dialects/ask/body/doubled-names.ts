/** Finds fields that a body has twice: we read the last one, but a server may read the first. */
import { cacheNames } from '../account/cache-names.ts';
import { dearer } from '../account/priced-apart.ts';

/** Fields that decide which model is called, for how much and for whom, or that were checked. */
const decisive = [
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
  ...dearer.keys(),
  ...cacheNames,
].map((name) => ({ name, key: Buffer.from(`"${name}"`) }));

const anyEscape = Buffer.from('\\u00');
/** Escapes of letters, which could hide such a name and serve no honest purpose. */
const hiddenLetters = ['\\u005', '\\u006', '\\u007'].map((letter) => Buffer.from(letter));

/**
 * Whether a body may have a decisive field twice. A server that reads the first one, or a second
 * `model` after ours, would do what was not checked or priced. The same name deeper inside counts,
 * too, which only costs the time to write the body again.
 */
export function hasDoubles(bytes: Uint8Array, body: object): boolean {
  const parts = aroundLargest(bytes, body);
  if (isIn(parts, anyEscape) && hiddenLetters.some((letter) => isIn(parts, letter))) return true;
  for (const { name, key } of decisive) {
    if (name in body && isTwiceIn(parts, key)) return true;
  }
  return false;
}

/**
 * The bytes in which names can stand. Most of a large body may be one text, such as a document or a
 * picture, with at least one byte for each character. Let `others` be the bytes that are left: all
 * that precedes the text is within that many of the start, and all that follows it, of the end.
 */
function aroundLargest(bytes: Uint8Array, body: object): readonly Uint8Array[] {
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

function isIn(parts: readonly Uint8Array[], wanted: Buffer): boolean {
  return parts.some((part) => find(part, wanted) !== -1);
}

function isTwiceIn(parts: readonly Uint8Array[], wanted: Buffer): boolean {
  let times = 0;
  for (const part of parts) {
    for (let at = find(part, wanted); at !== -1; at = find(part, wanted, at + 1)) {
      times += 1;
      if (times === 2) return true;
    }
  }
  return false;
}

/** Bytes are searched many times faster than text; this call takes them without a copy. */
function find(bytes: Uint8Array, wanted: Buffer, from = 0): number {
  return Buffer.prototype.indexOf.call(bytes, wanted, from);
}
