/** Finished requests to fill the books with, and the way they get there. */
import { newRequestId } from '../../src/core/ids.ts';
import { noUsage } from '../../src/core/usage.ts';
import { slipOf } from '../../src/ledger/slip.ts';
import { noCharges, type RequestRecord } from '../../src/record/request-record.ts';
import type { Store } from '../../src/store/open.ts';
import { verifyBooks } from '../../src/store/verify/verify.ts';
import { makeKey, makeTenant, randomHash } from './engines.ts';

export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

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

/** One commit, as a drain makes it: one ledger entry for all charges of the tenant. */
export async function book(
  store: Store,
  records: readonly RequestRecord[],
  now = Math.max(...records.map(({ createdAt }) => createdAt)) + 1_000,
): Promise<void> {
  const slips = records.map((record) =>
    slipOf({ record, writtenOff: 0, keyAccount: null, keyCharge: 0 }),
  );
  await store.ledger.commit({ processId: 'test', slips, mayRepeat: false, now });
}

export async function grant(
  store: Store,
  tenantId: string,
  amount: number,
  now = Date.UTC(2020, 0, 1),
): Promise<void> {
  const outcome = await store.creditBook.change({
    tenantId,
    amount,
    note: 'test',
    idempotencyKey: null,
    now,
  });
  if (outcome.kind !== 'booked') throw new Error(`Not booked: ${outcome.kind}`);
}

/** A tenant with credits and a key. */
export async function addCustomer(store: Store, credits = 1_000_000) {
  const tenant = makeTenant();
  await store.directory.addTenant(tenant);
  if (credits > 0) await grant(store, tenant.id, credits);
  return { tenantId: tenant.id, keyId: await addKey(store, tenant.id) };
}

export async function addKey(store: Store, tenantId: string): Promise<string> {
  const key = makeKey(tenantId);
  await store.directory.addKey(key, randomHash());
  return key.id;
}

/** Everything that the checker has to say; nothing, when the books are right. */
export async function discrepancies(store: Store): Promise<string[]> {
  const lines: string[] = [];
  await verifyBooks(store.database, (line) => lines.push(line));
  return lines;
}
