/**
 * Turns schemas into JSON Schema 2020-12. Tool servers write older versions, and Anthropic, OpenAI
 * and others refuse a whole request because of one such schema.
 */
import type { Dialogue } from '../../../core/dialogue.ts';
import { type Fields, isObject } from '../../../core/json.ts';

type Schema = Readonly<Fields>;

/** Keys whose values are never schemas, even if they look like one. */
const examples: ReadonlySet<string> = new Set(['enum', 'const', 'default', 'examples', 'example']);

/** Keys whose values map free names to schemas; such a name may equal a schema key. */
export const schemasByName: ReadonlySet<string> = new Set([
  ...['properties', 'patternProperties', 'dependentSchemas', '$defs', 'definitions'],
]);

/** Returns the very same dialogue if it has no schema of an older version. */
export function inNewerSchemas(dialogue: Dialogue): Dialogue {
  const { tools, json } = dialogue;
  if (!tools.some(({ parameters }) => isOld(parameters)) && !isOld(json?.schema)) return dialogue;
  return {
    ...dialogue,
    tools: tools.map((tool) =>
      tool.parameters ? { ...tool, parameters: newer(tool.parameters) } : tool,
    ),
    json: json?.schema ? { ...json, schema: newer(json.schema) } : json,
  };
}

function isOld(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(isOld);
  if (!isObject(value)) return false;
  if (isOldItself(value)) return true;
  for (const key in value) {
    const inner = value[key];
    if (schemasByName.has(key) && isObject(inner)) {
      for (const name in inner) if (isOld(inner[name])) return true;
    } else if (!examples.has(key) && isOld(inner)) return true;
  }
  return false;
}

function isOldItself(schema: Schema): boolean {
  const { items, exclusiveMinimum: above, exclusiveMaximum: below } = schema;
  return Array.isArray(items) || isFlag(above) || isFlag(below) || lacksItems(schema);
}

function isFlag(value: unknown): value is boolean {
  return typeof value === 'boolean';
}

/** OpenAI refuses an array without `items`, even if anything may be in it. */
function lacksItems({ type, items, prefixItems }: Schema): boolean {
  return type === 'array' && items === undefined && prefixItems === undefined;
}

function newer(schema: Schema): Schema {
  const fields = Object.entries(schema).map(([key, value]) => [key, newerValue(key, value)]);
  const changed: Fields = Object.fromEntries(fields);
  if (Array.isArray(changed.items)) {
    const { items, additionalItems: others, ...rest } = changed;
    return { ...rest, prefixItems: items, ...(others === undefined ? {} : { items: others }) };
  }
  const bounded = newerBound(newerBound(changed, 'Minimum'), 'Maximum');
  return lacksItems(bounded) ? { ...bounded, items: {} } : bounded;
}

function newerValue(key: string, value: unknown): unknown {
  if (examples.has(key)) return value;
  if (schemasByName.has(key) && isObject(value)) {
    const schemas = Object.entries(value).map(([name, schema]) => [name, newerValue('', schema)]);
    return Object.fromEntries(schemas);
  }
  // The list `items` became `prefixItems`, so references into it change, too.
  if (key === '$ref' && typeof value === 'string') {
    return value.replaceAll(/\/items\/(?=\d)/g, '/prefixItems/');
  }
  if (Array.isArray(value)) return value.map((each) => newerValue('', each));
  return isObject(value) ? newer(value) : value;
}

/** In older schemas `exclusiveMinimum` was a flag beside `minimum`; now it is the bound. */
function newerBound(schema: Fields, name: 'Minimum' | 'Maximum'): Fields {
  if (!isFlag(schema[`exclusive${name}`])) return schema;
  const { [`exclusive${name}`]: isOutside, [name.toLowerCase()]: bound, ...rest } = schema;
  if (bound === undefined) return rest;
  return { ...rest, [isOutside ? `exclusive${name}` : name.toLowerCase()]: bound };
}
