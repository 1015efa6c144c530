/** Reads the routing fields of multipart forms. */
import { duplicateField, parseFormFlag } from '../../core/form.ts';
import { fieldsOf, itemsOf, type JsonObject, parseJson } from '../../core/json.ts';

/** A form's values are strings, and a field may occur several times. */
export type FormFields = ReadonlyMap<string, readonly string[]>;

interface SortedForm {
  /** `models`, `provider`, and `route` in their JSON form, not validated. */
  readonly routing: Readonly<JsonObject>;
  readonly rest: FormFields;
}

/**
 * Separates the routing fields from the other fields. Clients send lists and objects as JSON in one
 * field, or as OpenAI's libraries do: `models[]`, `provider[order][]`,
 * `provider[max_price][prompt]`.
 */
export function sortForm(fields: FormFields): SortedForm {
  const rest = new Map<string, readonly string[]>();
  const routing = new Map<string, unknown>();
  const provider: [path: readonly string[], value: unknown][] = [];
  for (const [name, all] of fields) {
    const texts = all.filter((text) => text !== '');
    const path = providerPath(name);
    if (/^models(?:\[\d*\])?$/.test(name)) routing.set('models', modelsIn(texts, routing));
    else if (path) provider.push([path, preferenceIn(name, texts)]);
    else if (name === 'provider') routing.set('provider', jsonIn(only(name, texts) ?? 'null'));
    else if (name === 'route') routing.set('route', only(name, texts));
    else rest.set(name, all);
  }
  if (provider.length > 0) {
    if (routing.get('provider')) throw duplicateField('provider');
    routing.set('provider', nested(provider));
  }
  return { routing: Object.fromEntries(routing), rest };
}

function modelsIn(texts: readonly string[], known: ReadonlyMap<string, unknown>): unknown {
  const before = known.get('models');
  const [first] = texts;
  if (texts.length === 1 && first?.startsWith('[') && !before) return jsonIn(first);
  const all = [...itemsOf(before), ...texts];
  return all.length > 0 ? all : undefined;
}

/** Parses `provider[a]`, `provider[a][]`, and `provider[a][b]`. */
function providerPath(name: string): readonly string[] | undefined {
  const match = /^provider\[(\w+)\](?:\[(\w*)\])?$/.exec(name);
  return match?.slice(1).filter((part): part is string => part !== undefined);
}

function preferenceIn(name: string, texts: readonly string[]): unknown {
  // A number in brackets is a list index, which isn't needed because items arrive in order.
  if (/\[\d*\]$/.test(name)) return texts;
  const text = only(name, texts);
  return text && parseFormFlag(text);
}

function only(name: string, texts: readonly string[]): string | undefined {
  const [text, ...duplicates] = texts;
  if (duplicates.length > 0) throw duplicateField(name);
  return text;
}

function jsonIn(text: string): unknown {
  const value = parseJson(text);
  return value === undefined ? text : value;
}

function nested(entries: readonly (readonly [readonly string[], unknown])[]): object {
  const preferences = new Map<string, unknown>();
  for (const [[name = '', inner], value] of entries) {
    const known = preferences.get(name);
    if (Array.isArray(value)) preferences.set(name, [...itemsOf(known), ...value]);
    else if (inner) preferences.set(name, { ...fieldsOf(known), [inner]: value });
    else preferences.set(name, value);
  }
  return Object.fromEntries(preferences);
}
