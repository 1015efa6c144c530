/**
 * JSON that is only passing through. Some servers send integers beyond 2^53 (a `seed`), which a
 * float would change: such numbers are carried as the text they came in.
 */

/** Also true for long digits inside a text, which then only costs time. */
const longNumber = /\d{16}/;

interface ParseContext {
  readonly source?: string;
}

const rawJson: unknown = Reflect.get(JSON, 'rawJSON');

function keepLongInteger(_key: string, value: unknown, context?: ParseContext): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return value;
  const source = context?.source;
  if (source === undefined || typeof rawJson !== 'function') return value;
  return rawJson(source);
}

/** Like `JSON.parse`, but undefined for what is no JSON, and exact for what is written back. */
export function parseExact(text: string): unknown {
  try {
    return longNumber.test(text) ? JSON.parse(text, keepLongInteger) : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Undefined for nesting so deep that it can be read but not written. */
export function writeJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}
