/** JSON Schemas reduced to the part of the language that Anthropic takes. */
import { type Fields, isObject, objectsIn } from '../../core/json.ts';

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
  const parts = [...branches, rest].map(({ properties }) => properties).filter(isObject);
  const properties = Object.fromEntries(parts.flatMap((part) => Object.entries(part)));
  return { ...rest, type: 'object', properties };
}
