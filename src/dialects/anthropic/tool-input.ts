import { type Fields, isObject, textOf } from '../../core/json.ts';
import { parseArguments } from '../normalize/exact-json.ts';

/** Arguments as an object, as Anthropic, Bedrock and Gemini demand; models may write other JSON. */
export function toolInput(json: string): Fields {
  if (json.trim() === '') return {};
  const value = parseArguments(json);
  return isObject(value) ? value : { arguments: value === undefined ? json : value };
}

/** The input in the start event of a call, as JSON; '' if it is missing or an empty object. */
export function inputText(input: unknown): string {
  const hasFields = isObject(input) && Object.keys(input).length > 0;
  return hasFields ? JSON.stringify(input) : textOf(input);
}
