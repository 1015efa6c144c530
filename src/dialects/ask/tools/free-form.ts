/**
 * Turns tools that take any text into functions with one text, which every upstream knows, and
 * turns their calls back.
 */
import { isObject } from '../../../core/json.ts';
import { parseArguments } from '../../answer/exact-json.ts';

const wholeText = 'The whole text for this tool goes into `input`, as it is.';

interface FreeForm {
  readonly description?: string | null | undefined;
  readonly format?:
    | { readonly syntax?: string | null; readonly definition?: string | null }
    | null
    | undefined;
}

/** A grammar cannot be enforced on a function, but the description can state it. */
export function freeFormFunction({ description: told, format }: FreeForm) {
  const { syntax, definition } = format ?? {};
  const grammar = definition
    ? `It has to follow this${syntax ? ` ${syntax}` : ''} grammar:\n${definition}`
    : '';
  const texts = [told ?? '', wholeText, grammar].filter((part) => part !== '');
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

/** The text in a call of such a function, which a model may write without the JSON around it. */
export function freeFormInput(json: string): string {
  const value = parseArguments(json);
  if (!isObject(value)) return json;
  if (typeof value.input === 'string') return value.input;
  return Object.keys(value).length === 0 ? '' : json;
}
