import { fieldsOf, isObject } from '../../../core/json.ts';
import type { Cacheable, CacheControl, Prompt, Turn } from '../../../core/prompt.ts';
import type { Edits, RawBody, Target } from '../../dialect.ts';
import { dropsParameter } from './vendor-parameters.ts';

// Cache breakpoints: Anthropic's `cache_control`, which clients of other dialects may also set, and
// OpenAI's `prompt_cache_breakpoint` on a part.

const breakpoint = 'prompt_cache_breakpoint';

/** Reads the breakpoint of a part, a message, a tool, or the entire request, in either format. */
export function cacheBreakpoint(value: object): { cacheControl?: CacheControl } {
  const { cache_control: anthropic, [breakpoint]: openAi } = fieldsOf(value);
  if (isObject(openAi)) {
    return { cacheControl: { ...fieldsOf(anthropic), [breakpoint]: openAi } };
  }
  return isObject(anthropic) ? { cacheControl: anthropic } : {};
}

/**
 * Returns the breakpoint in Anthropic's format. An OpenAI breakpoint becomes a 5-minute breakpoint,
 * which costs the same.
 */
export function cacheField({ cacheControl }: Cacheable): object {
  if (cacheControl === undefined) return {};
  const { [breakpoint]: openAi, ...anthropic } = cacheControl;
  const isAnthropic = openAi === undefined;
  return { cache_control: isAnthropic ? cacheControl : { type: 'ephemeral', ...anthropic } };
}

/** Returns the breakpoint in OpenAI's format if the client set it in that format. */
export function breakpointField({ cacheControl }: Cacheable): object {
  const isOpenAi = cacheControl !== undefined && breakpoint in cacheControl;
  return isOpenAi ? { [breakpoint]: cacheControl[breakpoint] } : {};
}

/** Returns the names of the fields in which the client set breakpoints. */
export function cacheBreakpointNames(prompt: Prompt): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { [breakpoint]: openAi, ...anthropic } of breakpointsIn(prompt)) {
    if (openAi !== undefined) names.add(breakpoint);
    if (openAi === undefined || Object.keys(anthropic).length > 0) names.add('cache_control');
  }
  return names;
}

function* breakpointsIn(prompt: Prompt): Iterable<CacheControl> {
  if (prompt.cacheControl) yield prompt.cacheControl;
  for (const { cacheControl } of prompt.tools) if (cacheControl) yield cacheControl;
  for (const { parts } of prompt.turns) {
    for (const part of parts)
      if ('cacheControl' in part && part.cacheControl) yield part.cacheControl;
  }
}

/** Anthropic rejects a request with more breakpoints. */
const breakpointsMax = 4;

/**
 * Keeps only the last breakpoints of a prompt that has too many, because each one covers everything
 * before it. Some libraries copy a message's breakpoint to each of its tool results.
 */
export function keepLastBreakpoints(prompt: Prompt): Prompt {
  let surplus = [...breakpointsIn(prompt)].length - breakpointsMax;
  if (surplus <= 0) return prompt;
  const { turns, tools } = prompt;
  const keep = <Part extends object>(part: Part): Part => {
    if (surplus === 0 || !('cacheControl' in part && part.cacheControl)) return part;
    surplus -= 1;
    return { ...part, cacheControl: undefined };
  };
  // Remove breakpoints in the order of the prompt, which starts with the tools.
  const remainingTools = tools.map(keep);
  const inTurn = (turn: Turn) => ({ ...turn, parts: turn.parts.map(keep<object>) }) as Turn;
  return { ...prompt, tools: remainingTools, turns: turns.map(inTurn) };
}

/**
 * An escaped character of `ttl`, `1h`, or `12h`. Clients have no other reason to escape it than to
 * hide the TTL.
 */
const escapedTtl = /\\u00(?:31|32|68|6c|74)/i;

/**
 * Returns a function that checks the entire body for 1-hour caching or OpenAI's 12-hour caching.
 * The function searches the text at most once. It isn't called if longer caching costs nothing
 * extra.
 */
export function usesLongCacheTtl({ text }: RawBody): () => boolean {
  let found: boolean | undefined;
  return () => {
    found ??= /"ttl"\s*:\s*"12?h"/.test(text) || escapedTtl.test(text);
    return found;
  };
}

/** Fields with a prompt cache key: OpenAI's, vLLM's, Fireworks's, and SGLang's. */
export const cacheKeyFields = [
  'prompt_cache_key',
  'cache_salt',
  'prompt_cache_isolation_key',
  'extra_key',
];

/**
 * Isolates the prompt caches of tenants, who share the operator's accounts. A tenant that sent
 * another tenant's cache key could tell from an answer's speed and price what was requested with
 * that key. So each key is replaced with a hash of the tenant ID and the key. The hash has 43
 * characters; OpenAI allows 64.
 */
export function isolateCaches(
  body: Readonly<Record<string, unknown>>,
  tenantId: string | null,
  target: Target,
  edits: Edits,
): void {
  for (const [name, value] of Object.entries(tenantCacheField(target))) {
    if ((body[name] ?? null) === null) edits[name] = value;
  }
  if (tenantId === null) return;
  for (const name of cacheKeyFields) {
    const chosen = body[name] ?? null;
    if (chosen !== null) edits[name] = hashWithTenant(tenantId, chosen);
  }
}

/**
 * Returns the field that separates this tenant's prompts from those of others in the vendor's
 * cache, for a request that doesn't set it. Empty if the vendor has no such field.
 */
export function tenantCacheField({ quirks, tenantId, isOwnAccount }: Target): object {
  const name = quirks.tenant_cache_field;
  if (!name || !tenantId || isOwnAccount || dropsParameter(quirks, name)) return {};
  return { [name]: hashWithTenant(tenantId, null) };
}

/** Hashes one cache key in the same way, for translated requests. */
export function tenantCacheKey(
  tenantId: string | null,
  chosen: string | null | undefined,
): string | undefined {
  if (!chosen) return undefined;
  return tenantId === null ? chosen : hashWithTenant(tenantId, chosen);
}

/** Tenant IDs have no line breaks, so two tenants can't produce the same input. */
function hashWithTenant(tenantId: string, chosen: unknown): string {
  const text = `${tenantId}\n${JSON.stringify(chosen)}`;
  return new Bun.CryptoHasher('sha256').update(text).digest('base64url');
}
