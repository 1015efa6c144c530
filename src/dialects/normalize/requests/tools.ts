import { jsonNamesMax, jsonValuesMax } from '../../../core/bounds.ts';
import { invalidRequest } from '../../../core/errors.ts';
import { exceededLimit, isObject, JsonTotals } from '../../../core/json.ts';
import type { Prompt, ToolCallPart, Turn } from '../../../core/prompt.ts';
import { parseArguments } from '../exact-json.ts';

/** Returns true if the model must call a tool, either any tool or a named one. */
export function isForced(choice: string | object | null | undefined): boolean {
  return choice === 'required' || (typeof choice === 'object' && choice !== null);
}

/**
 * The fields with tool lists, each followed by its dependent fields, which vendors reject without
 * the list.
 */
export const listsOfTools = [
  ['tools', 'tool_choice', 'parallel_tool_calls'],
  ['functions', 'function_call'],
] as const;

/** Adds the fields that depend on a removed tool list. */
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
 * Throws 400 if the arguments of all calls together have too many fields or values. Arguments are
 * JSON inside a JSON string, so theirs weren't counted with those of the request. Some upstreams
 * require the arguments as objects.
 */
export function rejectTooManyArguments({ turns }: Prompt): void {
  const texts = callsIn(turns).map((call) => call.arguments);
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  if (length <= jsonNamesMax * fieldLengthMin) return;
  const unlimited = Number.POSITIVE_INFINITY;
  const limits = { levels: unlimited, names: jsonNamesMax, values: jsonValuesMax };
  const totals = new JsonTotals();
  for (const text of texts) {
    const excess = exceededLimit(text, limits, totals);
    if (excess === undefined) continue;
    const most = excess === 'names' ? `more than ${jsonNamesMax} fields` : 'too many values';
    throw invalidRequest(`The arguments of tool calls have ${most}.`);
  }
}

// Converts custom tools to functions with one text parameter, which every upstream supports, and
// converts their calls back.

const inputInstruction = "Pass the tool's entire input text in `input`, unchanged.";

interface FreeFormTool {
  readonly description?: string | null | undefined;
  readonly format?:
    | { readonly syntax?: string | null; readonly definition?: string | null }
    | null
    | undefined;
}

/**
 * Returns the function for a custom tool. A grammar can't be enforced on a function, but the
 * description can state it.
 */
export function freeFormFunction({ description, format }: FreeFormTool) {
  const { syntax, definition } = format ?? {};
  const grammar = definition
    ? `It must follow this${syntax ? ` ${syntax}` : ''} grammar:\n${definition}`
    : '';
  const texts = [description ?? '', inputInstruction, grammar].filter((part) => part !== '');
  return {
    description: texts.join('\n\n'),
    parameters: {
      type: 'object',
      properties: { input: { type: 'string' } },
      required: ['input'],
      additionalProperties: false,
    },
  };
}

export function freeFormArguments(input: string): string {
  return JSON.stringify({ input });
}

/**
 * Returns the custom tool's input from the arguments of the function call. A model may write the
 * text without the JSON around it.
 */
export function freeFormInput(json: string): string {
  const value = parseArguments(json);
  if (!isObject(value)) return json;
  if (typeof value.input === 'string') return value.input;
  return Object.keys(value).length === 0 ? '' : json;
}
