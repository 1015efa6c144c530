import { cacheKeyFields } from './prompt-cache.ts';
import { surchargedParameters } from './restricted-parameters.ts';

// Finds duplicate fields. The gateway reads the last one, but a server may read the first.

/**
 * Fields that determine the model, the price, or the billed account, and fields that were checked.
 */
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
/**
 * Escaped letters, which could hide one of these names. Legitimate clients don't escape letters.
 */
const escapedLetters = ['\\u005', '\\u006', '\\u007'].map((letter) => Buffer.from(letter));

/**
 * Returns true if the body may contain one of these fields twice. If a server reads the first one,
 * or a second `model` after the one that the gateway wrote, it runs something that wasn't checked
 * or priced. Nested fields count too: a false positive only costs the time to serialize the body
 * again.
 */
export function hasDuplicateNames(bytes: Uint8Array, body: object): boolean {
  const segments = excludeLongestString(bytes, body);
  if (isIn(segments, anyEscape) && escapedLetters.some((letter) => isIn(segments, letter)))
    return true;
  for (const { name, key } of checkedNames) {
    if (name in body && isTwiceIn(segments, key)) return true;
  }
  return false;
}

/**
 * Returns the bytes that can contain field names. Most of a large body may be a single string, such
 * as a document or an image. Each of its characters takes at least one byte, so at most `others`
 * bytes are outside the string. Everything before it is within the first `others` bytes of the
 * body, and everything after it is within the last `others` bytes.
 */
function excludeLongestString(bytes: Uint8Array, body: object): readonly Uint8Array[] {
  if (bytes.length < largeBytesMin) return [bytes];
  const length = longestString(body);
  const others = bytes.length - length;
  return others < length ? [bytes.subarray(0, others), bytes.subarray(length)] : [bytes];
}

/** Searching a smaller body is faster than finding its longest string. */
const largeBytesMin = 16 * 1024;
/** If a body has more values than this, a single string rarely makes up most of it. */
const valuesMax = 200;

/** Returns the length of the longest string among the first values of a body. */
function longestString(body: object): number {
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

/**
 * Calls `Buffer`'s method on plain bytes without copying them. Searching bytes is many times faster
 * than searching text.
 */
function find(bytes: Uint8Array, pattern: Buffer, from = 0): number {
  return Buffer.prototype.indexOf.call(bytes, pattern, from);
}
