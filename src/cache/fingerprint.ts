import { isObject } from '../core/json.ts';

/**
 * The same text for values that differ only in the order of their keys: clients build the same
 * request in different orders. Undefined fields are no fields.
 */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? 'null';
  const fields = Object.keys(value)
    .filter((name) => value[name] !== undefined)
    .sort();
  return `{${fields.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(',')}}`;
}

/** Names a request. Parts are told apart: no two lists of parts give the same text. */
export function fingerprint(values: readonly unknown[]): string {
  return new Bun.CryptoHasher('sha256').update(canonical(values)).digest('base64url');
}
