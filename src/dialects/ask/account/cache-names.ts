import type { Edits } from '../body/edit-body.ts';

/** By what clients name a prompt to be kept warm: OpenAI's word, vLLM's, Fireworks', SGLang's. */
export const cacheNames = [
  'prompt_cache_key',
  'cache_salt',
  'prompt_cache_isolation_key',
  'extra_key',
];

/**
 * Tenants share the operator's accounts, and with them the caches there. A tenant that could use
 * another's name would learn from speed and price what was asked under it, so each name goes on as
 * one of the tenant's own: 43 characters where OpenAI takes 64.
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

/** The same of one name, for a request that is written anew. */
export function cacheNameWithin(
  tenantId: string | null,
  chosen: string | null | undefined,
): string | undefined {
  if (!chosen) return undefined;
  return tenantId === null ? chosen : nameWithin(tenantId, chosen);
}

/** No tenant's id has a line break, so no two of them give the same text. */
function nameWithin(tenantId: string, chosen: unknown): string {
  const text = `${tenantId}\n${JSON.stringify(chosen)}`;
  return new Bun.CryptoHasher('sha256').update(text).digest('base64url');
}
