import { isObject } from '../../../core/json.ts';
import { parseArguments } from '../exact-json.ts';

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
 * Returns the custom tool's input from the arguments of such a function call. A model may write the
 * text without the JSON around it.
 */
export function freeFormInput(json: string): string {
  const value = parseArguments(json);
  if (!isObject(value)) return json;
  if (typeof value.input === 'string') return value.input;
  return Object.keys(value).length === 0 ? '' : json;
}
