import { fieldsOf, isObject } from '../../../core/json.ts';
import type { Cacheable, CacheControl, Prompt, Turn } from '../../../core/prompt.ts';
import type { Edits, RawBody } from '../../dialect.ts';

/**
 * Marks for prompt caching: Anthropic's `cache_control`, which clients of other dialects may set as
 * well, and OpenAI's `prompt_cache_breakpoint` on a part.
 */

const breakpoint = 'prompt_cache_breakpoint';

/** The mark on a part, a message, a tool or the whole request, in Anthropic's or OpenAI's form. */
export function cacheMark(value: object): { cacheControl?: CacheControl } {
  const { cache_control: mark, [breakpoint]: point } = fieldsOf(value);
  if (isObject(point)) return { cacheControl: { ...fieldsOf(mark), [breakpoint]: point } };
  return isObject(mark) ? { cacheControl: mark } : {};
}

/** A mark in Anthropic's form; OpenAI's becomes Anthropic's shorter one, which costs as much. */
export function cacheField({ cacheControl: mark }: Cacheable): object {
  if (mark === undefined) return {};
  const { [breakpoint]: point, ...own } = mark;
  return { cache_control: point === undefined ? mark : { type: 'ephemeral', ...own } };
}

/** A mark in OpenAI's form, if the client set it so. */
export function breakpointField({ cacheControl: mark }: Cacheable): object {
  return mark && breakpoint in mark ? { [breakpoint]: mark[breakpoint] } : {};
}

/** The names of the fields by which the client set marks. */
export function cacheMarkNames(prompt: Prompt): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { [breakpoint]: point, ...own } of marksIn(prompt)) {
    if (point !== undefined) names.add(breakpoint);
    if (point === undefined || Object.keys(own).length > 0) names.add('cache_control');
  }
  return names;
}

function* marksIn(prompt: Prompt): Iterable<CacheControl> {
  if (prompt.cacheControl) yield prompt.cacheControl;
  for (const { cacheControl: mark } of prompt.tools) if (mark) yield mark;
  for (const { parts } of prompt.turns) {
    for (const part of parts)
      if ('cacheControl' in part && part.cacheControl) yield part.cacheControl;
  }
}

/** Anthropic refuses a fifth mark. */
const marksMax = 4;

/**
 * Keeps only the last marks of a dialogue with too many, since each covers all that stands before
 * it. Libraries copy the mark of a message to every result in it.
 */
export function keepLastMarks(prompt: Prompt): Prompt {
  let surplus = [...marksIn(prompt)].length - marksMax;
  if (surplus <= 0) return prompt;
  const { turns, tools } = prompt;
  const keep = <Part extends object>(part: Part): Part => {
    if (surplus === 0 || !('cacheControl' in part && part.cacheControl)) return part;
    surplus -= 1;
    return { ...part, cacheControl: undefined };
  };
  // In the order of the prompt, which begins with the tools.
  const markedTools = tools.map(keep);
  const inTurn = (turn: Turn) => ({ ...turn, parts: turn.parts.map(keep<object>) }) as Turn;
  return { ...prompt, tools: markedTools, turns: turns.map(inTurn) };
}

/** A character of `ttl`, `1h` or `12h` written as an escape, which only serves to hide it. */
const escapedTtl = /\\u00(?:31|32|68|6c|74)/i;

/**
 * Whether a client wants a part of its prompt cached for an hour, or for OpenAI's twelve hours, in
 * any block. The text is searched at most once, and not at all where an hour costs no extra.
 */
export function usesLongCacheTtl({ text }: RawBody): () => boolean {
  let found: boolean | undefined;
  return () => {
    found ??= /"ttl"\s*:\s*"12?h"/.test(text) || escapedTtl.test(text);
    return found;
  };
}

/** Fields by which clients name a cached prompt at OpenAI, vLLM, Fireworks and SGLang. */
export const cacheNames = [
  'prompt_cache_key',
  'cache_salt',
  'prompt_cache_isolation_key',
  'extra_key',
];

/**
 * Tenants share the operator's accounts, and with them the caches there. A tenant that could use
 * another's name would learn from speed and price what was asked under it. So each name is replaced
 * by a hash of tenant and name: 43 characters, where OpenAI takes 64.
 */
export function isolateCaches(
  body: Readonly<Record<string, unknown>>,
  tenantId: string | null,
  edits: Edits,
): void {
  if (tenantId === null) return;
  for (const name of cacheNames) {
    const chosen = body[name] ?? null;
    if (chosen !== null) edits[name] = hashWithTenant(tenantId, chosen);
  }
}

/** Replaces one name in this way, for a request that is written anew. */
export function tenantCacheName(
  tenantId: string | null,
  chosen: string | null | undefined,
): string | undefined {
  if (!chosen) return undefined;
  return tenantId === null ? chosen : hashWithTenant(tenantId, chosen);
}

/** No tenant's id has a line break, so two tenants never give the same text. */
function hashWithTenant(tenantId: string, chosen: unknown): string {
  const text = `${tenantId}\n${JSON.stringify(chosen)}`;
  return new Bun.CryptoHasher('sha256').update(text).digest('base64url');
}
