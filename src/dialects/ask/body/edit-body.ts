/** A client's body for an upstream that speaks the same dialect: the same but for a few fields. */
import type { Spliced } from '../../dialect.ts';
import { hasDoubles } from './doubled-names.ts';
import { exactIn } from './exact-body.ts';

/** A body as it came over the wire. */
export interface Source {
  readonly text: string;
  readonly bytes: Uint8Array;
}

/** Fields to set, or to leave out where the value is undefined. */
export type Edits = Record<string, unknown>;

type Body = Readonly<Record<string, unknown>>;

/** Fields that are meant for the gateway; no upstream knows them. */
export const ourWords: ReadonlySet<string> = new Set([
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
export function leaveOutOf(
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

interface Edited {
  readonly body: Body;
  /** The bytes that the client sent; null once `body` no longer says the same. */
  readonly source: Source | null;
}

/**
 * Writing a large body again costs more than everything else on the way. So when the only changes
 * are the model's name, standing first in the body as SDKs write it, and fields that were not
 * there before, the client's text follows a new beginning. Another field may stand there instead
 * of a model that is left out.
 */
export function editBody({ body, source }: Edited, edits: Edits): string | Spliced {
  const head = source && onlyAdds(edits, body) ? modelField(source.text, body.model) : undefined;
  if (head === undefined || !source || hasDoubles(source.bytes, body)) {
    return JSON.stringify({ ...(exactIn(source) ?? body), ...edits });
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
  const usual = `{"model":"${model}"`;
  if (text.startsWith(usual) && typeof model === 'string' && plainName.test(model)) {
    return usual.length;
  }
  const match = modelFirst.exec(text.slice(0, 300));
  return match && match[1] === JSON.stringify(model) ? match[0].length : undefined;
}
