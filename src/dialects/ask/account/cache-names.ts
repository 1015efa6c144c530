import type { Edits } from '../body/edit-body.ts';

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
export function keepCachesApart(
  body: Readonly<Record<string, unknown>>,
  tenantId: string | null,
  edits: Edits,
): void {
  if (tenantId === null) return;
  for (const name of cacheNames) {
    const chosen = body[name] ?? null;
    if (chosen !== null) edits[name] = nameWithin(tenantId, chosen);
  }
}

/** Replaces one name in this way, for a request that is written anew. */
export function cacheNameWithin(
  tenantId: string | null,
  chosen: string | null | undefined,
): string | undefined {
  if (!chosen) return undefined;
  return tenantId === null ? chosen : nameWithin(tenantId, chosen);
}

/** No tenant's id has a line break, so two tenants never give the same text. */
function nameWithin(tenantId: string, chosen: unknown): string {
  const text = `${tenantId}\n${JSON.stringify(chosen)}`;
  return new Bun.CryptoHasher('sha256').update(text).digest('base64url');
}
