/** How deep JSON nests: counted in its text before it is parsed, or in the value afterwards. */

/** A text longer than this is looked at before it is parsed: parsing would block for longer. */
export const scanAboveLength = 256 * 1024;

/** Counts brackets outside of strings: a million of them would parse to a hundred megabytes. */
export function nestsDeeperThan(levels: number, text: string): boolean {
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
