/** Compares two JSON values, for the audit log. */

export interface Difference {
  /** Such as `endpoints[0].pricing.prompt`; '' for the entire value. */
  readonly path: string;
  /** As JSON; undefined if there was none. */
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/** Returns the fields that differ, in the order of the documents. */
export function differences(before: unknown, after: unknown): Difference[] {
  const old = leavesOf(before);
  const current = leavesOf(after);
  const paths = new Set([...old.keys(), ...current.keys()]);
  return [...paths]
    .map((path) => ({ path, before: old.get(path), after: current.get(path) }))
    .filter((difference) => difference.before !== difference.after);
}

/** Returns the values that contain no others, by path. */
function leavesOf(value: unknown): Map<string, string> {
  const leaves = new Map<string, string>();
  collect(value, '', leaves);
  return leaves;
}

function collect(value: unknown, path: string, leaves: Map<string, string>): void {
  const isParent = typeof value === 'object' && value !== null && Object.keys(value).length > 0;
  if (!isParent) {
    // A state of null means that there was nothing.
    if (path !== '' || value !== null) leaves.set(path, JSON.stringify(value));
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) collect(item, `${path}[${index}]`, leaves);
  } else {
    for (const [name, field] of Object.entries(value))
      collect(field, path === '' ? name : `${path}.${name}`, leaves);
  }
}

type Document = Readonly<Record<string, unknown>>;

/**
 * Applies the changes of one editor to the document of another. Returns undefined if both have
 * changed the same field.
 */
export function combined(base: Document, mine: Document, theirs: Document): Document | undefined {
  const result: Record<string, unknown> = { ...theirs };
  for (const name of new Set([...Object.keys(base), ...Object.keys(mine)])) {
    if (isSame(base[name], mine[name])) continue;
    if (!isSame(base[name], theirs[name])) return undefined;
    if (mine[name] === undefined) delete result[name];
    else result[name] = mine[name];
  }
  return result;
}

/** Ignores the order of fields, which a form changes. */
function isSame(a: unknown, b: unknown): boolean {
  const none = (value: unknown) => (value === undefined ? null : { value });
  return differences(none(a), none(b)).length === 0;
}
