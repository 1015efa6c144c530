import { type Fields, isObject, textOf } from '../../core/json.ts';
import { parseArguments } from '../answer/exact-json.ts';

/** Anthropic takes nothing but an object as the input of a tool. */
export function toolInput(json: string): Fields {
  if (json.trim() === '') return {};
  const value = parseArguments(json);
  if (isObject(value)) return value;
  return value === undefined ? { arguments: json } : { value };
}

/** What an upstream says of it where a call begins, as JSON; '' for nothing, or an empty object. */
export function inputText(input: unknown): string {
  const isGiven = isObject(input) && Object.keys(input).length > 0;
  return isGiven ? JSON.stringify(input) : textOf(input);
}
