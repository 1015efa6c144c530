/** JSON as it comes from the network: unknown until somebody looks. */

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A text with something in it. */
export function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
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
