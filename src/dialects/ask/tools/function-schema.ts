/** The parameters of a function as OpenAI takes them; other providers take more. */
import type { Tool } from '../../../core/dialogue.ts';
import { type Fields, isObject } from '../../../core/json.ts';

/**
 * Parts of regular expressions that JavaScript knows but OpenAI refuses, since it reads them as
 * Python does. A tool of Claude Code has some.
 */
const foreignWords = /\\[pP]\{|\\u\{|\\k<|\(\?<[A-Za-z_]/;

/** Adds missing properties, which MCP and Anthropic do not demand, or a type (Codex's desktop). */
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
