import type { Caller } from '../../../src/core/caller.ts';
import { noUsage } from '../../../src/core/usage.ts';
import type { Settlement } from '../../../src/money/ledger.ts';
import { noCharges } from '../../../src/money/price/fee-kinds.ts';
import type { RequestRecord } from '../../../src/records/request-record.ts';
import { makeRecord } from '../record.ts';

export { callerOf } from '../caller.ts';

/** Returns the settlement of a successful request, charged only to the tenant's account. */
export function settlementOf(
  requestId: string,
  { tenantId, keyId }: Pick<Caller, 'tenantId' | 'keyId'>,
  charge: number,
  change: Partial<RequestRecord> = {},
): Settlement {
  const record = makeRecord({
    requestId,
    tenantId,
    keyId,
    usage: { ...noUsage, inputTokens: 1, outputTokens: charge },
    charges: { ...noCharges, modelCharge: charge },
    createdAt: 1_800_000_000_000,
    ...change,
  });
  return { record, writtenOff: 0, keyAccount: null, keyCharge: 0 };
}
