/** Names that stand twice in a body: we read the last one, a server may read the first. */
import { cacheNames } from '../account/cache-names.ts';
import { dearer } from '../account/priced-apart.ts';

/** Names that decide what is called, what it may cost and whose it is; and what was checked. */
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
/** How a letter of such a name could be hidden; nobody escapes these in earnest. */
const hiddenLetters = ['\\u005', '\\u006', '\\u007'].map((letter) => Buffer.from(letter));

/**
 * Whether a decisive name may stand twice. A server that reads the first one, or finds a second
 * `model` after ours, would do what nobody checked or priced. A look-alike further inside counts
 * too: it only costs the time to write the body again.
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
 * Where names can stand: not inside the one text, a document or a picture, that most of a large
 * body may be. It takes at least a byte for each of its characters, so what stands before it is
 * within as many bytes of the start as are left without it, and what follows is as near the end.
 */
function aroundLargest(bytes: Uint8Array, body: object): readonly Uint8Array[] {
  if (bytes.length < largeBytesMin) return [bytes];
  const length = largestText(body);
  const others = bytes.length - length;
  return others < length ? [bytes.subarray(0, others), bytes.subarray(length)] : [bytes];
}

/** Smaller ones are searched faster than their texts are looked at. */
const largeBytesMin = 16 * 1024;
/** One text among more values than this is hardly most of a body. */
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

/** Bytes are searched many times faster than text, and a buffer's search takes them as they are. */
function find(bytes: Uint8Array, wanted: Buffer, from = 0): number {
  return Buffer.prototype.indexOf.call(bytes, wanted, from);
}
