import { type Fields, isObject, textOf } from '../../core/json.ts';
import { parseArguments } from '../answer/exact-json.ts';

/** An object in any case, as Anthropic, Bedrock and Gemini want it: models write other things. */
export function toolInput(json: string): Fields {
  if (json.trim() === '') return {};
  const value = parseArguments(json);
  return isObject(value) ? value : { arguments: value === undefined ? json : value };
}

/** What an upstream says of it where a call begins, as JSON; '' for nothing, or an empty object. */
export function inputText(input: unknown): string {
  const isGiven = isObject(input) && Object.keys(input).length > 0;
  return isGiven ? JSON.stringify(input) : textOf(input);
}
