/**
 * Anthropic holds a model to the schemas of strict tools, within bounds for all of them together.
 * Beyond them it refuses the whole request, so that then no tool is strict.
 */
import type { Tool } from '../../core/dialogue.ts';
import { type Fields, fieldsOf, isObject, itemsOf } from '../../core/json.ts';
import { inputSchema, outputSchema } from './clean-schema.ts';

const toolsMax = 20;
const optionalMax = 24;
const unionsMax = 16;

type Schema = Readonly<Fields>;

/** What a tool is called with; a model is held to it in fewer words. */
export function toolSchema({ parameters, strict }: Tool, isHeld: boolean): Schema {
  const schema = inputSchema(parameters);
  return strict && isHeld ? fieldsOf(outputSchema(schema)) : schema;
}

/** Whether a model that can be is held to the schemas of strict tools; else that is left out. */
export function isHeldTo(tools: readonly Tool[], canBe: boolean, dropped: Set<string>): boolean {
  const isHeld = canBe && mayBeStrict(tools);
  if (!isHeld && tools.some(({ strict }) => strict)) dropped.add('strict');
  return isHeld;
}

/** Whether the tools that want it may be strict. */
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
