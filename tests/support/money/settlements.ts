import type { Caller } from '../../../src/core/caller.ts';
import { noUsage } from '../../../src/core/usage.ts';
import type { Settlement } from '../../../src/ledger/ledger-store.ts';
import { noCharges, type RequestRecord } from '../../../src/record/request-record.ts';

export { callerOf } from '../caller.ts';

/** A request that ended well and cost so much, on its wallet alone. */
export function settlementOf(
  requestId: string,
  { tenantId, keyId }: Pick<Caller, 'tenantId' | 'keyId'>,
  charge: number,
  change: Partial<RequestRecord> = {},
): Settlement {
  const record: RequestRecord = {
    requestId,
    tenantId,
    keyId,
    operation: 'chat',
    requestedModel: 'test/chat',
    model: 'test/chat',
    provider: 'fake',
    status: 'success',
    error: null,
    trafficMode: 'shared',
    usage: { ...noUsage, inputTokens: 1, outputTokens: charge },
    usageEstimated: false,
    charges: { ...noCharges, modelCharge: charge },
    prices: { prompt: '1', completion: '1' },
    searches: 0,
    skills: [],
    note: null,
    finishReason: 'stop',
    streamed: false,
    cancelled: false,
    cacheHit: false,
    firstByteMs: 3,
    durationMs: 5,
    endUser: null,
    attempts: [],
    createdAt: 1_800_000_000_000,
    ...change,
  };
  return { record, writtenOff: 0, keyAccount: null, keyCharge: 0 };
}
