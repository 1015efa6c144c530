import type { Caller } from '../../src/core/caller.ts';

/** A caller whom nothing limits, unless `change` says so. */
export function callerOf(tenantId: string, change: Partial<Caller> = {}): Caller {
  return {
    tenantId,
    keyId: 'key_test',
    kind: 'routing',
    scopes: null,
    models: null,
    requestsPerMinute: null,
    concurrentRequests: null,
    cacheMode: null,
    limitCredits: null,
    limitReset: null,
    expiresAt: null,
    ...change,
  };
}
