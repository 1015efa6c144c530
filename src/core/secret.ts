import { inspect } from 'node:util';

/**
 * A credential that cannot be printed by accident: as text, as JSON and in a debugger it shows
 * only how it ends. `reveal()` is the one way to the value, and easy to search for.
 */
export class Secret {
  readonly #value: string;
  /** What it was before, while it is being replaced: still accepted, and never given out anew. */
  readonly former: Secret | null;

  constructor(value: string, former: Secret | null = null) {
    this.#value = value;
    this.former = former;
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
