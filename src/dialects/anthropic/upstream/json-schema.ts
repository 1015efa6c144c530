import { type Fields, fieldsOf, isObject, itemsOf, objectsIn } from '../../../core/json.ts';
import type { Tool } from '../../../core/prompt.ts';

/** JSON Schemas reduced to the part of the language that Anthropic takes. */

type Schema = Readonly<Fields>;

/** Keys that structured output refuses. They are left out, so the model is not held to them. */
const refused = new Set([
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'pattern',
  'minItems',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
  'patternProperties',
  'propertyNames',
  'contains',
  'not',
  'if',
  'then',
  'else',
]);

/** Keys whose value maps names to schemas. */
const named = new Set(['properties', '$defs', 'definitions']);
/** Keys whose value is a list of schemas. */
const listed = new Set(['anyOf', 'allOf', 'prefixItems']);

/** A schema for `output_config.format`, without the keys that are refused there. */
export function outputSchema(schema: unknown): unknown {
  if (!isObject(schema)) return schema;
  const cleaned: Fields = {};
  for (const [key, value] of Object.entries(schema)) {
    if (refused.has(key)) continue;
    const name = key === 'oneOf' ? 'anyOf' : key;
    cleaned[name] = cleanedValue(name, value);
  }
  const isOfObjects = cleaned.type === 'object' || isObject(cleaned.properties);
  if (isOfObjects) cleaned.additionalProperties = false;
  return cleaned;
}

function cleanedValue(key: string, value: unknown): unknown {
  if (named.has(key) && isObject(value)) {
    return Object.fromEntries(Object.entries(value).map(([name, of]) => [name, outputSchema(of)]));
  }
  if (listed.has(key) && Array.isArray(value)) return value.map(outputSchema);
  return key === 'items' ? outputSchema(value) : value;
}

const unions = ['anyOf', 'oneOf', 'allOf'] as const;

/** A schema for the `input_schema` of a tool: an object at its root, and no union there. */
export function inputSchema(schema: Schema | null): Schema {
  const { anyOf, oneOf, allOf, ...rest } = schema ?? {};
  if (anyOf === undefined && oneOf === undefined && allOf === undefined) {
    return rest.type === 'object' ? rest : { ...rest, type: 'object' };
  }
  // All alternatives become one object that has the properties of each of them.
  const branches = unions.flatMap((name) => objectsIn(schema?.[name]));
  const propertySets = [...branches, rest].map(({ properties }) => properties).filter(isObject);
  const properties = Object.fromEntries(
    propertySets.flatMap((propertySet) => Object.entries(propertySet)),
  );
  return { ...rest, type: 'object', properties };
}

/**
 * Anthropic holds a model to the schemas of strict tools, but limits the size of all of them
 * together and refuses a request beyond that. In such a request no tool is sent as strict.
 */

const toolsMax = 20;
const optionalMax = 24;
const unionsMax = 16;

type ToolSchema = Readonly<Fields>;

/** The schema of a tool's input; for a strict tool, without the keys that are refused there. */
export function toolSchema({ parameters, strict }: Tool, isEnforced: boolean): ToolSchema {
  const schema = inputSchema(parameters);
  return strict && isEnforced ? fieldsOf(outputSchema(schema)) : schema;
}

/** Whether tools are sent as strict; if not although one asks for it, `strict` is dropped. */
export function enforcesStrict(
  tools: readonly Tool[],
  isSupported: boolean,
  dropped: Set<string>,
): boolean {
  const isEnforced = isSupported && mayBeStrict(tools);
  if (!isEnforced && tools.some(({ strict }) => strict)) dropped.add('strict');
  return isEnforced;
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
  const nestedMaps = [properties, $defs, definitions].filter(isObject).flatMap(Object.values);
  const nestedLists = [anyOf, allOf].filter(Array.isArray).flat();
  for (const inner of [...nestedMaps, ...nestedLists, items]) measure(inner, size);
}
