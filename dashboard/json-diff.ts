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
