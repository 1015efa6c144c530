import { type Fields, isObject } from '../../core/json.ts';
import { parseArguments } from '../answer/exact-json.ts';

/** Anthropic takes nothing but an object as the input of a tool. */
export function toolInput(json: string): Fields {
  if (json.trim() === '') return {};
  const value = parseArguments(json);
  if (isObject(value)) return value;
  return value === undefined ? { arguments: json } : { value };
}
