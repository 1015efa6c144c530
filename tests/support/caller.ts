import type { Caller } from '../../src/core/caller.ts';

/** Returns a caller without limits, with the given changes. */
export function callerOf(tenantId: string, change: Partial<Caller> = {}): Caller {
  return {
    tenantId,
    keyId: 'key_test',
    kind: 'routing',
    scopes: null,
    models: null,
    requestsPerMinute: null,
    tenantRequestsPerMinute: null,
    concurrentRequests: null,
    plan: null,
    cacheMode: null,
    limitCredits: null,
    limitReset: null,
    expiresAt: null,
    ...change,
  };
}
