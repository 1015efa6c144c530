import { isObject, type JsonObject, textOf } from '../../core/json.ts';
import { parseArguments } from './exact-json.ts';

/** Returns arguments as an object, which Anthropic, Bedrock, and Gemini require. */
export function toolInput(json: string): JsonObject {
  if (json.trim() === '') return {};
  const value = parseArguments(json);
  return isObject(value) ? value : { arguments: value === undefined ? json : value };
}

/** Returns a start event's tool input as JSON; '' if it's missing or an empty object. */
export function inputText(input: unknown): string {
  const hasFields = isObject(input) && Object.keys(input).length > 0;
  return hasFields ? JSON.stringify(input) : textOf(input);
}
