import type { JsonObject } from '../src/core/json.ts';
import type { ConfigObject } from './shapes.ts';

/** What the form of a kind of object reads and changes. */
export interface FormPartProps {
  readonly document: JsonObject;
  readonly onDocument: (document: JsonObject) => void;
  /**
   * New secrets by path, such as `api_keys[0].key`. They aren't part of the document, which is
   * shown as JSON.
   */
  readonly secrets: ReadonlyMap<string, string>;
  readonly onSecrets: (secrets: ReadonlyMap<string, string>) => void;
  readonly errorAt: (path: string) => string | undefined;
  /** Null for a new object. */
  readonly current: ConfigObject | null;
}

/** Returns a function that sets a field of a document, or removes it with undefined. */
export function fieldSetter<T extends object>(document: T, onDocument: (document: T) => void) {
  return (name: string, value: unknown) => {
    const { [name]: _, ...rest } = document as T & JsonObject;
    onDocument((value === undefined ? rest : { ...document, [name]: value }) as T);
  };
}

/** Returns a number of a document. */
export const numberOf = (value: unknown) => (typeof value === 'number' ? value : undefined);

/** Settings have a value instead of a document. */
export function documentOf({ config, value }: ConfigObject): JsonObject {
  return { ...(config ?? { value }) };
}
