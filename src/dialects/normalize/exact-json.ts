/**
 * JSON that is only passing through. Some servers send integers beyond 2^53 (a `seed`), which a
 * float would change: such numbers are carried as the text they came in.
 */
import { answerValuesMax, jsonDepthMax, jsonNamesMax } from '../../core/bounds.ts';
import { exceededLimit, isDeeperThan, type JsonLimits, scanAboveLength } from '../../core/json.ts';

/** Also matches long digits inside a string, which only costs time. */
export const longNumber = /\d{16}/;

/** A text this short cannot nest deep enough to hurt. */
const depthCheckMinLength = 4_096;

/** Numbers of a JSON text that a float may change; digits inside its strings are found as well. */
export function longNumbersIn(text: string): readonly string[] {
  return text.match(/\d[\d.eE+-]{15,}/g) ?? [];
}

interface ParseContext {
  readonly source?: string;
}

const rawJson: unknown = Reflect.get(JSON, 'rawJSON');

function preserveLongInteger(key: string, value: unknown, context?: ParseContext): unknown {
  // `JSON.stringify` would call a function under this key to write the object that contains it.
  if (key === 'toJSON') return value;
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return value;
  const source = context?.source;
  return source === undefined ? value : rawNumber(source, value);
}

/**
 * Wraps the number in a function. The runtime's raw JSON is a frozen object: where a message is
 * expected it would pass for one, and mending it would fail.
 */
function rawNumber(source: string, value: number): unknown {
  if (typeof rawJson !== 'function') return value;
  const raw: unknown = rawJson(source);
  const number = () => raw;
  number.toJSON = () => raw;
  return number;
}

/** Answers may have any number of fields: a token with twenty likely alternatives has sixty. */
const answerLimits = {
  levels: jsonDepthMax,
  names: Number.POSITIVE_INFINITY,
  values: answerValuesMax,
};
const argumentLimits = { ...answerLimits, names: jsonNamesMax };

/** Parses the arguments of a tool call exactly; undefined also when they have too many fields. */
export function parseArguments(json: string): unknown {
  return parseExact(json, argumentLimits);
}

/**
 * Like `JSON.parse`, but numbers are written back exactly, and the result is undefined for text
 * that is no JSON or nested too deep: writing 200,000 levels back takes seconds and then overflows
 * the stack.
 */
export function parseExact(text: string, limits: JsonLimits = answerLimits): unknown {
  if (text.length > scanAboveLength && exceededLimit(text, limits)) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (text.length > depthCheckMinLength && isDeeperThan(jsonDepthMax, value)) return undefined;
    return longNumber.test(text) ? JSON.parse(text, preserveLongInteger) : value;
  } catch {
    return undefined;
  }
}
