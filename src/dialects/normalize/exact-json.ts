/**
 * Parses JSON without losing digits. Some servers send integers beyond 2^53, such as a `seed`. A
 * float would round them, so they keep their original digits.
 */
import {
  answerCharactersPerValue,
  answerValuesMax,
  exactValuesMax,
  jsonDepthMax,
  jsonNamesMax,
} from '../../core/bounds.ts';
import { exceededLimit, isDeeperThan, type JsonLimits, scanAboveLength } from '../../core/json.ts';

/** May also match digits inside a string. That only costs time. */
export const longNumber = /\d{16}/;

/** Shorter JSON can't be nested deeply enough to matter. */
const depthCheckMinLength = 4_096;

/**
 * Returns the numbers that a float may not represent exactly. May include digits inside strings.
 */
export function longNumbersIn(text: string): readonly string[] {
  return text.match(/\d[\d.eE+-]{15,}/g) ?? [];
}

interface ParseContext {
  readonly source?: string;
}

const rawJson: unknown = Reflect.get(JSON, 'rawJSON');

function preserveLongInteger(key: string, value: unknown, context?: ParseContext): unknown {
  // `rawNumber` returns a function, which `JSON.stringify` would call under this key.
  if (key === 'toJSON') return value;
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return value;
  const source = context?.source;
  return source === undefined ? value : rawNumber(source, value);
}

/**
 * Wraps the number in a function. The runtime represents raw JSON as a frozen object, which can't
 * be changed and could be mistaken for part of the answer.
 */
function rawNumber(source: string, value: number): unknown {
  if (typeof rawJson !== 'function') return value;
  const raw: unknown = rawJson(source);
  const number = () => raw;
  number.toJSON = () => raw;
  return number;
}

/**
 * Answers may have any number of fields: the log probabilities of a single token have 60. An event
 * can have fewer values than a complete answer, because several events can arrive in one turn.
 */
function answerLimitsFor({ length }: string): JsonLimits {
  const values = Math.min(answerValuesMax, (scanAboveLength + length) / answerCharactersPerValue);
  return { levels: jsonDepthMax, names: Number.POSITIVE_INFINITY, values };
}

/**
 * Parses the arguments of a tool call. Returns undefined for invalid JSON and for too many fields.
 */
export function parseArguments(json: string): unknown {
  return parseExact(json, { ...answerLimitsFor(json), names: jsonNamesMax });
}

/**
 * Parses like `JSON.parse`, but keeps long numbers exact. Returns undefined for text that isn't
 * JSON or is nested too deeply: serializing 200,000 levels takes seconds and overflows the stack.
 */
export function parseExact(text: string, limits: JsonLimits = answerLimitsFor(text)): unknown {
  const isLong = text.length > scanAboveLength;
  if (isLong && exceededLimit(text, limits)) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (text.length > depthCheckMinLength && isDeeperThan(jsonDepthMax, value)) return undefined;
    return longNumber.test(text) && (!isLong || hasFewValues(text))
      ? JSON.parse(text, preserveLongInteger)
      : value;
  } catch {
    return undefined;
  }
}

function hasFewValues(text: string): boolean {
  const unlimited = Number.POSITIVE_INFINITY;
  const limits = { levels: unlimited, names: unlimited, values: exactValuesMax };
  return exceededLimit(text, limits) === undefined;
}
