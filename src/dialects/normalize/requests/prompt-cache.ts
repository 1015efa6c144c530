import { fieldsOf, isObject } from '../../../core/json.ts';
import type { Cacheable, CacheControl, Prompt, Turn } from '../../../core/prompt.ts';
import type { Edits, RawBody } from '../../dialect.ts';

/**
 * Prompt caching marks: Anthropic's `cache_control`, which clients of other dialects may set too,
 * and OpenAI's `prompt_cache_breakpoint` on a part.
 */

const breakpoint = 'prompt_cache_breakpoint';

/** Reads the mark on a part, a message, a tool, or the whole request, in either format. */
export function cacheBreakpoint(value: object): { cacheControl?: CacheControl } {
  const { cache_control: mark, [breakpoint]: point } = fieldsOf(value);
  if (isObject(point)) return { cacheControl: { ...fieldsOf(mark), [breakpoint]: point } };
  return isObject(mark) ? { cacheControl: mark } : {};
}

/**
 * Returns the mark in Anthropic's format. OpenAI's becomes the 5-minute one, which costs the same.
 */
export function cacheField({ cacheControl: mark }: Cacheable): object {
  if (mark === undefined) return {};
  const { [breakpoint]: point, ...own } = mark;
  return { cache_control: point === undefined ? mark : { type: 'ephemeral', ...own } };
}

/** Returns the mark in OpenAI's format, if the client set it so. */
export function breakpointField({ cacheControl: mark }: Cacheable): object {
  return mark && breakpoint in mark ? { [breakpoint]: mark[breakpoint] } : {};
}

/** Returns the names of the fields in which the client set marks. */
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

/** Anthropic rejects a request with more marks. */
const breakpointsMax = 4;

/**
 * Keeps only the last marks of a prompt with too many, because each covers everything before it.
 * Libraries copy a message's mark to every tool result in it.
 */
export function keepLastBreakpoints(prompt: Prompt): Prompt {
  let surplus = [...marksIn(prompt)].length - breakpointsMax;
  if (surplus <= 0) return prompt;
  const { turns, tools } = prompt;
  const keep = <Part extends object>(part: Part): Part => {
    if (surplus === 0 || !('cacheControl' in part && part.cacheControl)) return part;
    surplus -= 1;
    return { ...part, cacheControl: undefined };
  };
  // In prompt order, which starts with the tools.
  const markedTools = tools.map(keep);
  const inTurn = (turn: Turn) => ({ ...turn, parts: turn.parts.map(keep<object>) }) as Turn;
  return { ...prompt, tools: markedTools, turns: turns.map(inTurn) };
}

/** A character of `ttl`, `1h`, or `12h` as an escape, which has no use except to hide it. */
const escapedTtl = /\\u00(?:31|32|68|6c|74)/i;

/**
 * Returns a check for 1-hour caching, or OpenAI's 12-hour caching, anywhere in the body. The text
 * is searched at most once, and not at all if longer caching costs no extra.
 */
export function usesLongCacheTtl({ text }: RawBody): () => boolean {
  let found: boolean | undefined;
  return () => {
    found ??= /"ttl"\s*:\s*"12?h"/.test(text) || escapedTtl.test(text);
    return found;
  };
}

/** Fields that name a cached prompt at OpenAI, vLLM, Fireworks, and SGLang. */
export const cacheKeyFields = [
  'prompt_cache_key',
  'cache_salt',
  'prompt_cache_isolation_key',
  'extra_key',
];

/**
 * Isolates the caches of tenants, who share the operator's accounts. A tenant that could use
 * another's cache name would learn from speed and price what was requested under it. So each name
 * is replaced by a hash of tenant and name: 43 characters, where OpenAI allows 64.
 */
export function isolateCaches(
  body: Readonly<Record<string, unknown>>,
  tenantId: string | null,
  edits: Edits,
): void {
  if (tenantId === null) return;
  for (const name of cacheKeyFields) {
    const chosen = body[name] ?? null;
    if (chosen !== null) edits[name] = hashWithTenant(tenantId, chosen);
  }
}

/** Hashes one cache name in the same way, for translated requests. */
export function tenantCacheKey(
  tenantId: string | null,
  chosen: string | null | undefined,
): string | undefined {
  if (!chosen) return undefined;
  return tenantId === null ? chosen : hashWithTenant(tenantId, chosen);
}

/** Tenant ids have no line breaks, so two tenants can't produce the same text. */
function hashWithTenant(tenantId: string, chosen: unknown): string {
  const text = `${tenantId}\n${JSON.stringify(chosen)}`;
  return new Bun.CryptoHasher('sha256').update(text).digest('base64url');
}
