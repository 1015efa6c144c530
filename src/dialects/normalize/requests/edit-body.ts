import type { Edits, RawBody, SplicedBody } from '../../dialect.ts';
import { isUnambiguous, withoutLookalikes } from './checked-names.ts';
import { parseExactBody } from './exact-numbers.ts';

// Edits a client's request body for an upstream of the same dialect.

type Body = Readonly<Record<string, unknown>>;

/** Fields that only the gateway knows, so they are never sent upstream. */
export const gatewayFields: ReadonlySet<string> = new Set([
  'models',
  'provider',
  'route',
  'skills',
  'plugins',
]);

/**
 * Removes the fields with these names, and known fields that are null: clients write null for unset
 * fields, and some servers reject null.
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
  /** The names that were checked. Fields whose names differ only in case are removed. */
  readonly checkedNames: ReadonlySet<string>;
}

/**
 * Returns the body with the edits applied. Serializing a large body costs more than all other work
 * on a request. So if the edits only add fields or change the model, which SDKs write first, only
 * the start of the body is rewritten. The rest of the client's text is sent unchanged.
 */
export function editBody(
  { body, source, checkedNames }: EditableRequest,
  edits: Edits,
): string | SplicedBody {
  const head = source && onlyAdds(edits, body) ? modelField(source.text, body.model) : undefined;
  if (head === undefined || !source || !isUnambiguous(source, body, checkedNames)) {
    const edited = { ...(parseExactBody(source) ?? body), ...edits };
    return JSON.stringify(withoutLookalikes(edited, checkedNames));
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

/** Shorter bodies are faster to send as one string. */
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
 * Returns `before` itself if `after` has the same items. If a writer gets the same object back, it
 * can send the client's own text.
 */
export function sameIfUnchanged<List extends readonly unknown[]>(before: List, after: List): List {
  const isSame =
    after.length === before.length && after.every((item, index) => item === before[index]);
  return isSame ? before : after;
}
