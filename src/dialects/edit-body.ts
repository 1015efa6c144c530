/** A client's body for an upstream that speaks the same dialect: the same words, but for a few. */

/** A body as it came over the wire. */
export interface Source {
  readonly text: string;
  readonly bytes: Uint8Array;
}

/** Fields to set, or to leave out where the value is undefined. */
export type Edits = Record<string, unknown>;

type Body = Readonly<Record<string, unknown>>;

interface Edited {
  readonly body: Body;
  /** What the client sent, as long as it says the same as `body`. */
  readonly source: Source | null;
}

/**
 * Writing a large body again costs more than everything else on the way. So when the only changes
 * are the model's name, standing first in the body as SDKs write it, and fields that were not
 * there before, the client's bytes go on behind a new beginning.
 */
export function editBody({ body, source }: Edited, edits: Edits): string {
  const { model, ...rest } = edits;
  const onlyAdds = Object.keys(rest).every((name) => rest[name] !== undefined && !(name in body));
  const head = onlyAdds && source ? modelField(source.text, body.model) : undefined;
  if (head === undefined || !source || hasDoubles(source, body)) {
    return JSON.stringify({ ...body, ...edits });
  }
  let start = `{"model":${JSON.stringify(model)}`;
  for (const name of Object.keys(rest)) start += `,"${name}":${JSON.stringify(rest[name])}`;
  return start + source.text.slice(head);
}

/** Where `{"model":"…"` ends, if the body starts with exactly that. */
function modelField(text: string, model: unknown): number | undefined {
  const usual = `{"model":"${model}"`;
  if (text.startsWith(usual) && isPlainName(model)) return usual.length;
  const match = /^\s*\{\s*"model"\s*:\s*("[\x20\x21\x23-\x5b\x5d-\x7e]*")/.exec(text.slice(0, 300));
  return match && match[1] === JSON.stringify(model) ? match[0].length : undefined;
}

/** A name that JSON writes as it is. */
function isPlainName(model: unknown): boolean {
  return typeof model === 'string' && /^[\w./:@+-]+$/.test(model);
}

/** Names that decide what is called and what it may cost. */
const decisive = [
  'model',
  'max_tokens',
  'max_completion_tokens',
  'n',
  'max_output_tokens',
  'store',
  'background',
  'previous_response_id',
];

/** How a letter of such a name could be hidden; nobody escapes these in earnest. */
const hiddenLetters = ['\\u005', '\\u006', '\\u007'];

/**
 * Whether a decisive name may stand twice. We read the last one; a server that reads the first, or
 * finds a second `model` behind ours, would do what nobody checked or priced. A look-alike further
 * inside counts too: it only costs the time to write the body again.
 */
function hasDoubles({ bytes }: Source, body: Body): boolean {
  // Bytes are searched three times faster than text.
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const hasEscapes = text.includes('\\u00');
  if (hasEscapes && hiddenLetters.some((letter) => text.includes(letter))) return true;
  return decisive.some((name) => {
    if (!(name in body)) return false;
    const key = `"${name}"`;
    return text.indexOf(key) !== text.lastIndexOf(key);
  });
}
