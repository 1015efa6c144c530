import { isObject, type JsonObject } from '../../../core/json.ts';
import type { Prompt, Tool } from '../../../core/prompt.ts';

// Converts schemas to JSON Schema 2020-12. Some tool servers send schemas of older versions, and
// Anthropic, OpenAI, and others reject the entire request because of one older schema.

type Schema = Readonly<JsonObject>;

/** Keys whose values are data, even if they look like a schema. */
const literalKeys: ReadonlySet<string> = new Set([
  'enum',
  'const',
  'default',
  'examples',
  'example',
]);

/**
 * Keys whose values map arbitrary names to schemas. One of these names may be the same as a schema
 * key.
 */
export const schemasByName: ReadonlySet<string> = new Set([
  ...['properties', 'patternProperties', 'dependentSchemas', '$defs', 'definitions'],
]);

/** Converts the schemas of tools and JSON output. Returns the same object if no schema is old. */
export function withCurrentSchemas(prompt: Prompt): Prompt {
  const { tools, json } = prompt;
  if (!tools.some(({ parameters }) => isOld(parameters)) && !isOld(json?.schema)) return prompt;
  return {
    ...prompt,
    tools: tools.map((tool) =>
      tool.parameters ? { ...tool, parameters: toCurrent(tool.parameters) } : tool,
    ),
    json: json?.schema ? { ...json, schema: toCurrent(json.schema) } : json,
  };
}

function isOld(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(isOld);
  if (!isObject(value)) return false;
  if (isOldSchema(value)) return true;
  for (const key in value) {
    const inner = value[key];
    if (schemasByName.has(key) && isObject(inner)) {
      for (const name in inner) if (isOld(inner[name])) return true;
    } else if (!literalKeys.has(key) && isOld(inner)) return true;
  }
  return false;
}

function isOldSchema(schema: Schema): boolean {
  const { items, exclusiveMinimum: above, exclusiveMaximum: below } = schema;
  return Array.isArray(items) || isFlag(above) || isFlag(below) || lacksItems(schema);
}

function isFlag(value: unknown): value is boolean {
  return typeof value === 'boolean';
}

/** OpenAI requires `items`, even if the array may contain anything. */
function lacksItems({ type, items, prefixItems }: Schema): boolean {
  return type === 'array' && items === undefined && prefixItems === undefined;
}

function toCurrent(schema: Schema): Schema {
  const fields = Object.entries(schema).map(([key, value]) => [key, toCurrentValue(key, value)]);
  const changed: JsonObject = Object.fromEntries(fields);
  if (Array.isArray(changed.items)) {
    const { items, additionalItems: others, ...rest } = changed;
    return { ...rest, prefixItems: items, ...(others === undefined ? {} : { items: others }) };
  }
  const bounded = toCurrentBound(toCurrentBound(changed, 'Minimum'), 'Maximum');
  return lacksItems(bounded) ? { ...bounded, items: {} } : bounded;
}

function toCurrentValue(key: string, value: unknown): unknown {
  if (literalKeys.has(key)) return value;
  if (schemasByName.has(key) && isObject(value)) {
    const schemas = Object.entries(value).map(([name, schema]) => [
      name,
      toCurrentValue('', schema),
    ]);
    return Object.fromEntries(schemas);
  }
  // A list in `items` was renamed to `prefixItems`, so references into it are renamed too.
  if (key === '$ref' && typeof value === 'string') {
    return value.replaceAll(/\/items\/(?=\d)/g, '/prefixItems/');
  }
  if (Array.isArray(value)) return value.map((item) => toCurrentValue('', item));
  return isObject(value) ? toCurrent(value) : value;
}

/**
 * In older schemas, `exclusiveMinimum` was a flag next to `minimum`. Now it is the bound itself.
 */
function toCurrentBound(schema: JsonObject, name: 'Minimum' | 'Maximum'): JsonObject {
  if (!isFlag(schema[`exclusive${name}`])) return schema;
  const { [`exclusive${name}`]: isOutside, [name.toLowerCase()]: bound, ...rest } = schema;
  if (bound === undefined) return rest;
  return { ...rest, [isOutside ? `exclusive${name}` : name.toLowerCase()]: bound };
}

// Converts function parameters for OpenAI, which is stricter than other providers.

/**
 * Regular expression syntax that JavaScript supports but OpenAI rejects, because OpenAI expects
 * Python's syntax. One of Claude Code's tools uses it.
 */
const unsupportedSyntax = /\\[pP]\{|\\u\{|\\k<|\(\?<[A-Za-z_]/;

/**
 * Returns the schema of a tool that the client sent without one. OpenAI and others require one. In
 * strict mode, it must forbid other properties.
 */
export function noParameters(isStrict = false): JsonObject {
  const empty = { type: 'object', properties: {} };
  return isStrict ? { ...empty, required: [], additionalProperties: false } : empty;
}

/**
 * Adds missing `properties`, which MCP and Anthropic don't require, and a missing `type`, which
 * Codex's desktop app omits.
 */
export function functionSchema(original: Tool['parameters'], isStrict = false): JsonObject {
  if (original === null) return noParameters(isStrict);
  const schema = {
    type: 'object',
    properties: {},
    ...(hasUnsupported(original) ? withoutUnsupported(original) : original),
  };
  return schema.type === null ? { ...schema, type: 'object' } : schema;
}

function isUnsupported(key: string, value: unknown): boolean {
  return key === 'pattern' && typeof value === 'string' && unsupportedSyntax.test(value);
}

function hasUnsupported(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(hasUnsupported);
  if (!isObject(value)) return false;
  for (const key in value) {
    if (isUnsupported(key, value[key]) || hasUnsupported(value[key])) return true;
  }
  return false;
}

function withoutUnsupported(schema: JsonObject): JsonObject {
  const supported = Object.entries(schema).filter(([key, value]) => !isUnsupported(key, value));
  return Object.fromEntries(supported.map(([key, value]) => [key, supportedValue(value)]));
}

function supportedValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(supportedValue);
  return isObject(value) ? withoutUnsupported(value) : value;
}
