import { isObject, type JsonObject } from '../core/json.ts';
import { labelOfKey } from '../core/provider-key.ts';

// Secrets inside documents. They are named by patterns such as `headers.*`, where `*` stands for
// every name of an object or item of a list.

/** The path of a field. An item of a list is named by its `name`, or by its index without one. */
type FieldPath = readonly string[];

interface Leaf {
  readonly path: FieldPath;
  readonly text: string;
}

/** Returns the secrets in a document: the texts at the patterns. */
export function secretsIn(document: JsonObject, patterns: readonly string[]): readonly Leaf[] {
  return patterns.flatMap((pattern) => leavesAt(document, pattern.split('.'), []));
}

function leavesAt(value: unknown, [segment, ...rest]: FieldPath, path: FieldPath): Leaf[] {
  if (segment === undefined) return typeof value === 'string' ? [{ path, text: value }] : [];
  const entries =
    segment === '*' ? childrenOf(value) : [[segment, childOf(value, segment)] as const];
  return entries.flatMap(([name, child]) => leavesAt(child, rest, [...path, name]));
}

function childrenOf(value: unknown): [string, unknown][] {
  if (Array.isArray(value)) return value.map((item, index) => [itemName(item, index), item]);
  return isObject(value) ? Object.entries(value) : [];
}

function itemName(item: unknown, index: number): string {
  return isObject(item) && typeof item.name === 'string' ? item.name : String(index);
}

function childOf(value: unknown, name: string): unknown {
  return childrenOf(value).find(([other]) => other === name)?.[1];
}

/** Returns the value at a path, or undefined. */
export function valueAt(document: JsonObject, path: FieldPath): unknown {
  return path.reduce<unknown>(childOf, document);
}

/** Returns a copy with another value at a path. Does nothing if there is no such field. */
export function withValueAt(value: unknown, path: FieldPath, changed: unknown): unknown {
  const [name, ...rest] = path;
  if (name === undefined) return changed;
  if (Array.isArray(value)) {
    return value.map((item: unknown, index) =>
      itemName(item, index) === name ? withValueAt(item, rest, changed) : item,
    );
  }
  return isObject(value) ? { ...value, [name]: withValueAt(value[name], rest, changed) } : value;
}

/** Replaces each secret by a label that identifies it without revealing it. */
export function maskSecrets(document: JsonObject, patterns: readonly string[]): JsonObject {
  return secretsIn(document, patterns).reduce(
    (masked, { path, text }) => withValueAt(masked, path, labelOfKey(text)) as JsonObject,
    document,
  );
}
