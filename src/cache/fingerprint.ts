import { isObject } from '../core/json.ts';

/**
 * Serializes a value with sorted keys, because clients build the same request in different orders.
 * Skips undefined fields.
 */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? 'null';
  const fields = Object.keys(value)
    .filter((name) => value[name] !== undefined)
    .sort();
  return `{${fields.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(',')}}`;
}

/** Hashes a request. Different lists of values never have the same serialization. */
export function fingerprint(values: readonly unknown[]): string {
  return new Bun.CryptoHasher('sha256').update(canonical(values)).digest('base64url');
}
