import { jsonDepthMax, jsonEscapesMax, jsonStringsMax } from './bounds.ts';

export type JsonObject = Record<string, unknown>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns an object's fields, or none for any other value. */
export function fieldsOf(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/** Returns an array's items, or none for any other value. */
export function itemsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Returns the objects in an array. */
export function objectsIn(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** Returns whether the value is a non-empty string. */
export function isNonEmptyString(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

/** Returns a string, or '' for any other value. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Returns a string's length, or 0 for any other value. */
export function lengthOf(value: unknown): number {
  return typeof value === 'string' ? value.length : 0;
}

/** Parses JSON. Returns undefined for invalid JSON, which providers often send. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns false for text that would take seconds to parse, too. */
export function isValidJson(text: string): boolean {
  const limits = { levels: jsonDepthMax, names: Number.POSITIVE_INFINITY };
  return exceededLimit(text, limits) === undefined && parseJson(text) !== undefined;
}

type DefinedFields<F> = { [Name in keyof F]?: Exclude<F[Name], undefined> };

/** Removes undefined fields, because an optional field can be absent but not undefined. */
export function definedFields<F extends object>(fields: F): DefinedFields<F> {
  const defined = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(defined) as DefinedFields<F>;
}

/** Longer text is scanned before it is parsed, because parsing blocks the process for longer. */
export const scanAboveLength = 256 * 1024;

export interface JsonLimits {
  readonly levels: number;
  readonly names: number;
  /** Counted as commas and opening brackets. Absent means unlimited. */
  readonly values?: number;
}

/** The limits of `JsonLimits`, and those that all texts have. */
export type ExceededLimit = keyof JsonLimits | 'strings' | 'escapes';

/**
 * Returns the first limit that a JSON text exceeds, or undefined. Counts brackets and colons
 * outside strings: a million levels would take 100 MB once parsed, and parsing a million distinct
 * names would take seconds. `totals` carries the counts from one text to the next.
 */
export function exceededLimit(
  text: string,
  limits: JsonLimits,
  totals: JsonTotals = new JsonTotals(),
): ExceededLimit | undefined {
  let levels = 0;
  let { names, values } = totals;
  const { strings } = totals;
  const { values: valuesMax = Number.POSITIVE_INFINITY } = limits;
  if (hasTooManyEscapes(text)) return 'escapes';
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === 0x22) {
      const start = index + 1;
      index = endOfString(text, index);
      if (!strings.add(text, start, index)) return 'strings';
    } else if (code === 0x3a) {
      if (++names > limits.names) return 'names';
    } else if (code === 0x2c) {
      if (++values > valuesMax) return 'values';
    } else if (code === 0x5b || code === 0x7b) {
      if (++levels > limits.levels) return 'levels';
      if (++values > valuesMax) return 'values';
    } else if (code === 0x5d || code === 0x7d) levels--;
  }
  totals.names = names;
  totals.values = values;
  return undefined;
}

/** A backslash outside of strings isn't valid JSON, so all of them are counted. */
function hasTooManyEscapes(text: string): boolean {
  let at = text.indexOf('\\');
  for (let escapes = 1; at !== -1; escapes += 1) {
    if (escapes > jsonEscapesMax) return true;
    at = text.indexOf('\\', at + 2);
  }
  return false;
}

/** The parser compares only names and short strings with others. */
const comparedLengthMax = 128;

/** Unpredictable, so that no one can choose strings that aren't sampled. */
const [hashSeed = 0] = crypto.getRandomValues(new Uint32Array(1));

/** Estimates the number of different strings: counts those with a sixteenth of all hashes. */
class DistinctStrings {
  readonly #sampled = new Set<number>();

  /** Returns false if there are too many. */
  add(text: string, start: number, end: number): boolean {
    if (end - start > comparedLengthMax) return true;
    let hash = hashSeed;
    for (let at = start; at < end; at++)
      hash = Math.imul(hash ^ text.charCodeAt(at), 0x01_00_01_93);
    if (hash >>> 28 !== 0) return true;
    this.#sampled.add(hash);
    return this.#sampled.size * 16 <= jsonStringsMax;
  }
}

/** What all texts of a request or an answer contain together. */
export class JsonTotals {
  names = 0;
  values = 0;
  readonly strings = new DistinctStrings();
}

/**
 * Returns the index of a string's closing quote. For the first characters, a loop is faster than
 * `indexOf`. For a distant quote, `indexOf` is much faster.
 */
function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length) {
    for (const near = at + nearLength; at < near; at++) {
      const code = text.charCodeAt(at);
      if (code === 0x22) return at;
      if (code === 0x5c) at++;
    }
    const quote = text.indexOf('"', at);
    if (quote === -1) break;
    let before = quote - 1;
    while (text.charCodeAt(before) === 0x5c) before--;
    if ((quote - before) % 2 === 1) return quote;
    at = quote + 1;
  }
  return text.length;
}

const nearLength = 32;

/**
 * Returns whether a value is nested deeper than this. Iterates by key, because Object.values takes
 * 8 times as long.
 */
export function isDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  if (Array.isArray(value)) return value.some((item) => isDeeperThan(levels - 1, item));
  for (const key in value) {
    if (isDeeperThan(levels - 1, (value as Record<string, unknown>)[key])) return true;
  }
  return false;
}
