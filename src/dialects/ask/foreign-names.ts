import { foreignNamesMax } from '../../core/bounds.ts';
import type { TextPart, UnheardPart } from '../../core/dialogue.ts';
import { fieldsOf, isText } from '../../core/json.ts';

interface AnyPart {
  readonly type?: string | null;
}

/** What only upstreams of the client's own dialect can do. */
export class ForeignNames {
  readonly #names = new Set<string>();
  unheard: UnheardPart | undefined;

  /** Each is named once, and not without end. */
  add(name: string): void {
    if (this.#names.size < foreignNamesMax) this.#names.add(name);
  }

  /** Notes the first part of which nothing can be said, unless it was merely empty. */
  lose<Part extends AnyPart>(
    parts: readonly Part[],
    isSayable: (part: Part) => boolean,
    path: string,
  ): void {
    const at = parts.findIndex((part) => !isSayable(part));
    const type = parts[at]?.type;
    if (type) this.unheard ??= { param: `${path}[${at}]`, type };
  }

  get list(): readonly string[] {
    return [...this.#names];
  }
}

/** The words of a part that is of no type we know. */
export function wordsIn(part: AnyPart): readonly TextPart[] {
  const { text } = fieldsOf(part);
  return isText(text) ? [{ kind: 'text', text }] : [];
}
