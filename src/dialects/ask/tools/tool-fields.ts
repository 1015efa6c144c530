/** Lists of tools, each with the fields that vendors refuse without it. */
export const listsOfTools = [
  ['tools', 'tool_choice', 'parallel_tool_calls'],
  ['functions', 'function_call'],
] as const;

/** These names, and those of the fields that cannot be sent without them. */
export function withDependents(names: readonly string[]): ReadonlySet<string> {
  const lost = listsOfTools.filter(([list]) => names.includes(list));
  return new Set([...names, ...lost.flat()]);
}
