import { foreignNamesMax } from '../../core/bounds.ts';

/** Names of what only Anthropic could do, each once and not without end. */
export class ForeignNames {
  readonly #names = new Set<string>();

  add(name: string): void {
    if (this.#names.size < foreignNamesMax) this.#names.add(name);
  }

  get list(): readonly string[] {
    return [...this.#names];
  }
}
