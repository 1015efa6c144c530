import { fieldsOf, isObject, itemsOf, type JsonObject, objectsIn } from '../../../core/json.ts';
import type { Tool } from '../../../core/prompt.ts';

// Reduces JSON Schemas to the subset that Anthropic supports.

type Schema = Readonly<JsonObject>;

/** Keywords that structured output rejects. They're dropped, so the model may violate them. */
const unsupportedKeywords = new Set([
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

/** Keywords whose value maps names to schemas. */
const named = new Set(['properties', '$defs', 'definitions']);
/** Keywords whose value is a list of schemas. */
const listed = new Set(['anyOf', 'allOf', 'prefixItems']);

/** Returns a schema for `output_config.format`, without unsupported keywords. */
export function outputSchema(schema: unknown): unknown {
  if (!isObject(schema)) return schema;
  const cleaned: JsonObject = {};
  for (const [key, value] of Object.entries(schema)) {
    if (unsupportedKeywords.has(key)) continue;
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

/** Returns a schema for a tool's `input_schema`: an object schema without a union at its root. */
export function inputSchema(schema: Schema | null): Schema {
  const { anyOf, oneOf, allOf, ...rest } = schema ?? {};
  if (anyOf === undefined && oneOf === undefined && allOf === undefined) {
    return rest.type === 'object' ? rest : { ...rest, type: 'object' };
  }
  // Merge all alternatives into one object that has the properties of each.
  const branches = unions.flatMap((name) => objectsIn(schema?.[name]));
  const propertySets = [...branches, rest].map(({ properties }) => properties).filter(isObject);
  const properties = Object.fromEntries(
    propertySets.flatMap((propertySet) => Object.entries(propertySet)),
  );
  return { ...rest, type: 'object', properties };
}

// Anthropic enforces the schemas of strict tools but rejects a request that has too many strict
// tools, or too many optional parameters or unions in their schemas. In such a request, no tool is
// sent as strict.

const toolsMax = 20;
const optionalMax = 24;
const unionsMax = 16;

type ToolSchema = Readonly<JsonObject>;

/** Returns the schema of a tool's input; for a strict tool, without unsupported keywords. */
export function toolSchema({ parameters, strict }: Tool, isEnforced: boolean): ToolSchema {
  const schema = inputSchema(parameters);
  return strict && isEnforced ? fieldsOf(outputSchema(schema)) : schema;
}

/** Returns true if tools can be sent as strict. Otherwise reports `strict` as dropped. */
export function enforcesStrict(
  tools: readonly Tool[],
  isSupported: boolean,
  dropped: Set<string>,
): boolean {
  const isEnforced = isSupported && mayBeStrict(tools);
  if (!isEnforced && tools.some(({ strict }) => strict)) dropped.add('strict');
  return isEnforced;
}

/** Returns true if all strict tools together stay within Anthropic's limits. */
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
  const requiredNames = new Set(itemsOf(required));
  size.optional += names.filter((name) => !requiredNames.has(name)).length;
  const nestedMaps = [properties, $defs, definitions].filter(isObject).flatMap(Object.values);
  const nestedLists = [anyOf, allOf].filter(Array.isArray).flat();
  for (const inner of [...nestedMaps, ...nestedLists, items]) measure(inner, size);
}
