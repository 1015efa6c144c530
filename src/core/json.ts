/** JSON as it comes from the network: unknown until somebody looks. */

/** The fields of an object, by their names. */
export type Fields = Record<string, unknown>;

export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The fields of an object; whatever else came in its place has none. */
export function fieldsOf(value: unknown): Fields {
  return isObject(value) ? value : {};
}

/** The items of a list; whatever else came in its place has none. */
export function itemsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The objects among the items of a list. */
export function objectsIn(value: unknown): Fields[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** A text with something in it. */
export function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

/** The text itself; an empty one for whatever else came in its place. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Characters of a text; whatever else came in its place has none. */
export function lengthOf(value: unknown): number {
  return typeof value === 'string' ? value.length : 0;
}

/** Parses without throwing: half of what upstreams send is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

type DefinedFields<F> = { [Name in keyof F]?: Exclude<F[Name], undefined> };

/** The fields that were given: an optional field may be left out, but it may not be undefined. */
export function definedFields<F extends object>(fields: F): DefinedFields<F> {
  const defined = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(defined) as DefinedFields<F>;
}

/** How deep and wide JSON is: counted in its text before it is parsed, or in the value. */

/** A text longer than this is looked at before it is parsed: parsing would block for longer. */
export const scanAboveLength = 256 * 1024;

export interface JsonLimits {
  readonly levels: number;
  readonly names: number;
  /** Counted by commas and opening brackets; left out where there may be any number. */
  readonly values?: number;
}

/**
 * What a text has too much of to be parsed; undefined when it may be. Counts brackets and colons
 * outside of strings: a million levels would parse to a hundred megabytes, and a million different
 * names would take seconds. `counted` carries the names on to the next of several texts.
 */
export function exceededLimit(
  text: string,
  limits: JsonLimits,
  totals = { names: 0 },
): keyof JsonLimits | undefined {
  let levels = 0;
  let { names } = totals;
  let values = 0;
  const { values: valuesMax = Number.POSITIVE_INFINITY } = limits;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x22) at = endOfString(text, at);
    else if (code === 0x3a) {
      if (++names > limits.names) return 'names';
    } else if (code === 0x2c) {
      if (++values > valuesMax) return 'values';
    } else if (code === 0x5b || code === 0x7b) {
      if (++levels > limits.levels) return 'levels';
      if (++values > valuesMax) return 'values';
    } else if (code === 0x5d || code === 0x7d) levels--;
  }
  totals.names = names;
  return undefined;
}

/**
 * Where the string ends that begins at this quote. The runtime finds a far quote much faster than
 * we do, and a near one slower.
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

/** Walks by key: making a list of each object's values takes eight times as long. */
export function isDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  if (Array.isArray(value)) return value.some((item) => isDeeperThan(levels - 1, item));
  for (const key in value) {
    if (isDeeperThan(levels - 1, (value as Record<string, unknown>)[key])) return true;
  }
  return false;
}
