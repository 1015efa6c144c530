/** Settled requests of one tenant, and its wallet. */
import { noUsage } from '../src/core/usage.ts';
import type { Settlement } from '../src/money/ledger.ts';
import { noCharges } from '../src/money/price/fee-kinds.ts';
import type { Store } from '../src/store/open.ts';
import { makeRecord } from '../tests/support/record.ts';

export const tenantId = 'default';
export const chargeCredits = 125;
export const grantedCredits = 10 ** 14;

/** Returns the settlement of a new request, with its number in the journal. */
export function settlement(journalNumber?: number): Settlement {
  return {
    ...(journalNumber === undefined ? {} : { journalNumber }),
    record: makeRecord({
      tenantId,
      keyId: 'key_0123456789abcdef',
      requestedModel: 'bench/chat',
      model: 'bench/chat',
      provider: 'bench',
      usage: { ...noUsage, inputTokens: 27, outputTokens: 200 },
      charges: { ...noCharges, modelCharge: chargeCredits },
      prices: { prompt: '0.15', completion: '0.60' },
      firstByteMs: 3,
      durationMs: 4,
      attempts: [
        {
          provider: 'bench',
          model: 'bench/chat',
          outcome: 'ok',
          status: 200,
          message: null,
          ms: 3,
        },
      ],
      createdAt: Date.now(),
    }),
    writtenOff: 0,
    keyAccount: null,
    keyCharge: 0,
  };
}

export async function createWallet(store: Store): Promise<void> {
  const now = Date.now();
  const limits = { requestsPerMinute: null, concurrentRequests: null, plan: null };
  const tenant = { id: tenantId, name: 'Bench', disabled: false, ...limits };
  await store.directory.addTenant({ ...tenant, createdAt: now, updatedAt: now });
  await store.creditStore.change({
    tenantId,
    amount: grantedCredits,
    note: 'bench',
    idempotencyKey: null,
    now,
  });
}
