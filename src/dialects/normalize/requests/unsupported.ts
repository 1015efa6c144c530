import { unsupportedNamesMax } from '../../../core/bounds.ts';
import { fieldsOf, isNonEmptyString } from '../../../core/json.ts';
import type { TextPart, UnsupportedPart } from '../../../core/prompt.ts';

interface AnyPart {
  readonly type?: string | null;
}

/** Collects the names of options that only upstreams of the client's own dialect support. */
export class UnsupportedNames {
  readonly #names = new Set<string>();
  unsupportedPart: UnsupportedPart | undefined;

  /** Records a name once, up to a limit. */
  add(name: string): void {
    if (this.#names.size < unsupportedNamesMax) this.#names.add(name);
  }

  /** Records the first part that has no neutral form. */
  noteUnsupported<Part extends AnyPart>(
    parts: readonly Part[],
    isRepresentable: (part: Part) => boolean,
    path: string,
  ): void {
    const index = parts.findIndex((part) => !isRepresentable(part));
    const type = parts[index]?.type;
    if (type) this.unsupportedPart ??= { param: `${path}[${index}]`, type };
  }

  get list(): readonly string[] {
    return [...this.#names];
  }
}

/** Returns the text of a part of an unknown type as a text part, if it has any. */
export function textPartsOf(part: AnyPart): readonly TextPart[] {
  const { text } = fieldsOf(part);
  return isNonEmptyString(text) ? [{ kind: 'text', text }] : [];
}
