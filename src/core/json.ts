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
