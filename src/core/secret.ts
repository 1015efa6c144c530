import { hkdfSync } from 'node:crypto';
import { inspect } from 'node:util';

/**
 * A credential that can't be printed by accident: as text, in JSON, and in a debugger, it shows
 * only its last characters. `reveal()` is the only way to read the value.
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
 * The operator's secret key, followed by the previous ones. Only the first key encrypts and signs.
 * All of them decrypt and verify.
 */
export type SecretKeys = readonly [Secret, ...Secret[]];

/**
 * Derives a key for one use from the operator's secret key, so that a signature for one use is
 * never accepted for another.
 */
export function derivedKey(secret: Secret, use: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret.reveal(), '', `tollgate ${use} v1`, 32));
}

/** Binds the encrypted secrets of a configuration object to it. */
export function configObjectPurpose(kind: string, name: string): string {
  return JSON.stringify(['config object', kind, name]);
}

/** Derives a key from each secret, in the same order. */
export function derivedKeys(
  [current, ...previous]: SecretKeys,
  use: string,
): readonly [Uint8Array, ...Uint8Array[]] {
  return [derivedKey(current, use), ...previous.map((secret) => derivedKey(secret, use))];
}
