/** How deep and wide JSON is: counted in its text before it is parsed, or in the value. */

/** A text longer than this is looked at before it is parsed: parsing would block for longer. */
export const scanAboveLength = 256 * 1024;

export interface JsonLimits {
  readonly levels: number;
  readonly names: number;
  /** Counted by their commas; left out where there may be any number. */
  readonly values?: number;
}

/**
 * What a text has too much of to be parsed; undefined when it may be. Counts brackets and colons
 * outside of strings: a million levels would parse to a hundred megabytes, and a million different
 * names would take seconds. `counted` carries the names on to the next of several texts.
 */
export function excessIn(
  text: string,
  most: JsonLimits,
  counted = { names: 0 },
): keyof JsonLimits | undefined {
  let levels = 0;
  let { names } = counted;
  let commas = 0;
  const { values = Number.POSITIVE_INFINITY } = most;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (inString) {
      if (code === 0x5c) at++;
      else if (code === 0x22) inString = false;
    } else if (code === 0x22) inString = true;
    else if (code === 0x3a) {
      if (++names > most.names) return 'names';
    } else if (code === 0x2c) {
      if (++commas > values) return 'values';
    } else if (code === 0x5b || code === 0x7b) {
      if (++levels > most.levels) return 'levels';
    } else if (code === 0x5d || code === 0x7d) levels--;
  }
  counted.names = names;
  return undefined;
}

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
