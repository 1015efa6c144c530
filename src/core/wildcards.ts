/**
 * Values by names that may end in `*`. Looking up a name takes one step per length of a prefix, so
 * that many wildcards don't slow down requests.
 */
export class Wildcards<Value> {
  readonly #byPrefix = new Map<string, Value>();
  /** The longest comes first. */
  readonly #lengths: readonly number[];

  /** Ignores names that don't end in `*`. */
  constructor(named: Iterable<readonly [string, Value]>) {
    for (const [name, value] of named) {
      if (name.endsWith('*')) this.#byPrefix.set(name.slice(0, -1), value);
    }
    const lengths = new Set([...this.#byPrefix.keys()].map(({ length }) => length));
    this.#lengths = [...lengths].sort((a, b) => b - a);
  }

  /** Returns the value with the longest prefix of the name, and the part that `*` stands for. */
  find(name: string): { readonly value: Value; readonly rest: string } | undefined {
    for (const length of this.#lengths) {
      if (length > name.length) continue;
      const value = this.#byPrefix.get(name.slice(0, length));
      if (value !== undefined) return { value, rest: name.slice(length) };
    }
    return undefined;
  }
}
