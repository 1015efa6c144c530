import { newRequestId } from '../../src/core/ids.ts';
import { noUsage } from '../../src/core/usage.ts';
import { noCharges } from '../../src/money/price/fee-kinds.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';

/** Returns the record of a successful request, with changes. */
export function makeRecord(change: Partial<RequestRecord> = {}): RequestRecord {
  return {
    requestId: newRequestId(),
    tenantId: 'nobody',
    keyId: 'key_none',
    operation: 'chat',
    requestedModel: 'acme/chat',
    model: 'acme/chat',
    provider: 'acme',
    status: 'success',
    error: null,
    trafficMode: 'shared',
    usage: { ...noUsage, inputTokens: 10, outputTokens: 5 },
    usageEstimated: false,
    charges: { ...noCharges, modelCharge: 7 },
    prices: null,
    searches: 0,
    skills: [],
    note: null,
    finishReason: 'stop',
    streamed: false,
    cancelled: false,
    cacheHit: false,
    firstByteMs: 20,
    durationMs: 100,
    endUser: null,
    attempts: [],
    createdAt: Date.UTC(2026, 1, 10, 12),
    ...change,
  };
}
