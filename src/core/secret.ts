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
