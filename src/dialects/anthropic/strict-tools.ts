/**
 * Anthropic holds a model to the schemas of strict tools, but limits the size of all of them
 * together and refuses a request beyond that. In such a request no tool is sent as strict.
 */
import type { Tool } from '../../core/dialogue.ts';
import { type Fields, fieldsOf, isObject, itemsOf } from '../../core/json.ts';
import { inputSchema, outputSchema } from './clean-schema.ts';

const toolsMax = 20;
const optionalMax = 24;
const unionsMax = 16;

type Schema = Readonly<Fields>;

/** The schema of a tool's input; for a strict tool, without the keys that are refused there. */
export function toolSchema({ parameters, strict }: Tool, isHeld: boolean): Schema {
  const schema = inputSchema(parameters);
  return strict && isHeld ? fieldsOf(outputSchema(schema)) : schema;
}

/** Whether tools are sent as strict; if not although one asks for it, `strict` is dropped. */
export function isHeldTo(tools: readonly Tool[], canBe: boolean, dropped: Set<string>): boolean {
  const isHeld = canBe && mayBeStrict(tools);
  if (!isHeld && tools.some(({ strict }) => strict)) dropped.add('strict');
  return isHeld;
}

/** Whether all tools that ask to be strict stay within Anthropic's limits together. */
function mayBeStrict(tools: readonly Tool[]): boolean {
  const strict = tools.filter((tool) => tool.strict === true);
  const size = { optional: 0, unions: 0 };
  for (const tool of strict.slice(0, toolsMax)) measure(toolSchema(tool, true), size);
  return strict.length <= toolsMax && size.optional <= optionalMax && size.unions <= unionsMax;
}

interface Size {
  optional: number;
  unions: number;
}

function measure(schema: unknown, size: Size): void {
  if (!isObject(schema)) return;
  const { type, properties, required, anyOf, allOf, items, $defs, definitions } = schema;
  if (Array.isArray(type) || Array.isArray(anyOf)) size.unions += 1;
  const names = Object.keys(fieldsOf(properties));
  const needed = new Set(itemsOf(required));
  size.optional += names.filter((name) => !needed.has(name)).length;
  const named = [properties, $defs, definitions].filter(isObject).flatMap(Object.values);
  const listed = [anyOf, allOf].filter(Array.isArray).flat();
  for (const inner of [...named, ...listed, items]) measure(inner, size);
}
