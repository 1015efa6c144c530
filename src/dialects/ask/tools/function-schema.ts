/** The parameters of a function as OpenAI takes them, which is less than others do. */
import type { Tool } from '../../../core/dialogue.ts';
import { type Fields, isObject } from '../../../core/json.ts';

/**
 * Parts of a regular expression that JavaScript knows and OpenAI, which reads it as Python would,
 * refuses. A tool of Claude Code has some.
 */
const foreignWords = /\\[pP]\{|\\u\{|\\k<|\(\?<[A-Za-z_]/;

/** MCP and Anthropic take a schema without properties, and Codex's desktop has one of no type. */
export function functionSchema(parameters: Tool['parameters']): Fields {
  const given = parameters ?? {};
  const schema = { type: 'object', properties: {}, ...(isForeignIn(given) ? plain(given) : given) };
  return schema.type === null ? { ...schema, type: 'object' } : schema;
}

function isForeign(key: string, value: unknown): boolean {
  return key === 'pattern' && typeof value === 'string' && foreignWords.test(value);
}

function isForeignIn(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(isForeignIn);
  if (!isObject(value)) return false;
  for (const key in value) {
    if (isForeign(key, value[key]) || isForeignIn(value[key])) return true;
  }
  return false;
}

function plain(schema: Fields): Fields {
  const kept = Object.entries(schema).filter(([key, value]) => !isForeign(key, value));
  return Object.fromEntries(kept.map(([key, value]) => [key, plainValue(value)]));
}

function plainValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plainValue);
  return isObject(value) ? plain(value) : value;
}
