/**
 * JSON that is only passing through. Some servers send integers beyond 2^53 (a `seed`), which a
 * float would change: such numbers are carried as the text they came in.
 */
import { jsonDepthMax } from '../core/bounds.ts';

/** Also true for long digits inside a text, which then only costs time. */
const longNumber = /\d{16}/;

/** A text this short cannot nest deep enough to hurt. */
const harmlessLength = 4_096;

/** From here on a look at the text costs less than what it could become. */
const scannedLength = 256 * 1024;

/** Numbers of a JSON text that a float may change, and harmless digits of its texts. */
export function longNumbersIn(text: string): readonly string[] {
  return text.match(/\d[\d.eE+-]{15,}/g) ?? [];
}

interface ParseContext {
  readonly source?: string;
}

const rawJson: unknown = Reflect.get(JSON, 'rawJSON');

function keepLongInteger(_key: string, value: unknown, context?: ParseContext): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return value;
  const source = context?.source;
  return source === undefined ? value : writtenAs(source, value);
}

/**
 * A function and no object, although the runtime has objects for this: those are frozen, and one
 * that stands where a message should be would be taken for a message that can be mended.
 */
function writtenAs(source: string, value: number): unknown {
  if (typeof rawJson !== 'function') return value;
  const raw: unknown = rawJson(source);
  const number = () => raw;
  number.toJSON = () => raw;
  return number;
}

/** Looks at a long text before it is parsed: a million brackets make a hundred megabytes. */
function nestsDeeperThan(levels: number, text: string): boolean {
  let depth = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (inString) {
      if (code === 0x5c) at++;
      else if (code === 0x22) inString = false;
    } else if (code === 0x22) inString = true;
    else if (code === 0x5b || code === 0x7b) {
      if (++depth > levels) return true;
    } else if (code === 0x5d || code === 0x7d) depth--;
  }
  return false;
}

function isDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  return Object.values(value).some((part) => isDeeperThan(levels - 1, part));
}

/**
 * Like `JSON.parse`, but exact for what is written back, and undefined for what is no JSON or
 * nested too deep: writing 200,000 levels back takes seconds and then overflows the stack.
 */
export function parseExact(text: string): unknown {
  if (text.length > scannedLength && nestsDeeperThan(jsonDepthMax, text)) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (text.length > harmlessLength && isDeeperThan(jsonDepthMax, value)) return undefined;
    return longNumber.test(text) ? JSON.parse(text, keepLongInteger) : value;
  } catch {
    return undefined;
  }
}
