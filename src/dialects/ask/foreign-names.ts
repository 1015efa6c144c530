import { foreignNamesMax } from '../../core/bounds.ts';

/** Names of what only upstreams of the client's own dialect can do; each once, not without end. */
export class ForeignNames {
  readonly #names = new Set<string>();

  add(name: string): void {
    if (this.#names.size < foreignNamesMax) this.#names.add(name);
  }

  get list(): readonly string[] {
    return [...this.#names];
  }
}
