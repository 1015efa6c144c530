import { foreignNamesMax } from '../../core/bounds.ts';
import type { TextPart, UnheardPart } from '../../core/dialogue.ts';
import { fieldsOf, isText } from '../../core/json.ts';

interface AnyPart {
  readonly type?: string | null;
}

/** The names of wishes that only upstreams of the client's own dialect can grant. */
export class ForeignNames {
  readonly #names = new Set<string>();
  unheard: UnheardPart | undefined;

  /** Keeps each name once, up to a limit. */
  add(name: string): void {
    if (this.#names.size < foreignNamesMax) this.#names.add(name);
  }

  /** Notes the first part that cannot be put in our words; an empty text is none such. */
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

/** The text of a part of an unknown type. */
export function wordsIn(part: AnyPart): readonly TextPart[] {
  const { text } = fieldsOf(part);
  return isText(text) ? [{ kind: 'text', text }] : [];
}
