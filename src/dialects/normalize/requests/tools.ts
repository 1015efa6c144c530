import { jsonNamesMax } from '../../../core/bounds.ts';
import { invalidRequest } from '../../../core/errors.ts';
import { exceededLimit } from '../../../core/json.ts';
import type { Prompt, ToolCallPart, Turn } from '../../../core/prompt.ts';

/** Returns true if the model must call a tool, either any tool or a named one. */
export function isForced(choice: string | object | null | undefined): boolean {
  return choice === 'required' || (typeof choice === 'object' && choice !== null);
}

/** The tool lists, each with the fields that vendors reject without it. */
export const listsOfTools = [
  ['tools', 'tool_choice', 'parallel_tool_calls'],
  ['functions', 'function_call'],
] as const;

/** Adds the names of the fields that vendors reject without the named ones. */
export function withDependents(names: readonly string[]): ReadonlySet<string> {
  const lost = listsOfTools.filter(([list]) => names.includes(list));
  return new Set([...names, ...lost.flat()]);
}

export function callsIn(turns: readonly Turn[]): readonly ToolCallPart[] {
  return turns.flatMap(({ parts }) => parts.filter((part) => part.kind === 'tool_call'));
}

/** The minimum length of a field in JSON: 2 quotes, a colon, a value, and a comma. */
const fieldLengthMin = 5;

/**
 * Throws 400 if the arguments of all calls have too many fields. They are JSON inside JSON, so
 * their fields weren't counted with the request's, and some upstreams need them parsed.
 */
export function rejectTooManyArguments({ turns }: Prompt): void {
  const texts = callsIn(turns).map((call) => call.arguments);
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  if (length <= jsonNamesMax * fieldLengthMin) return;
  const limits = { levels: Number.POSITIVE_INFINITY, names: jsonNamesMax };
  const counted = { names: 0 };
  for (const text of texts) {
    if (exceededLimit(text, limits, counted) === undefined) continue;
    throw invalidRequest(`The arguments of tool calls have more than ${jsonNamesMax} fields.`);
  }
}
