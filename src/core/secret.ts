import { hkdfSync } from 'node:crypto';
import { inspect } from 'node:util';

/**
 * A credential that cannot be printed by accident: as text, as JSON and in a debugger it shows
 * only how it ends. `reveal()` is the one way to the value, and easy to search for.
 */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return this.#value.length < 12 ? '•••' : `•••${this.#value.slice(-4)}`;
  }

  toJSON(): string {
    return this.toString();
  }

  [inspect.custom](): string {
    return this.toString();
  }
}

/**
 * The operator's secret key, and behind it the one that it replaces, if any: the first makes what
 * is new, and both are accepted.
 */
export type SecretKeys = readonly [Secret, ...Secret[]];

/**
 * A key of its own for each use, made from the operator's secret key: what was signed or sealed for
 * one use must never be accepted by another.
 */
export function derivedKey(secret: Secret, use: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret.reveal(), '', `tollgate ${use} v1`, 32));
}

/** One derived key from each secret, in the same order. */
export function derivedKeys(
  [current, ...previous]: SecretKeys,
  use: string,
): readonly [Uint8Array, ...Uint8Array[]] {
  return [derivedKey(current, use), ...previous.map((secret) => derivedKey(secret, use))];
}
