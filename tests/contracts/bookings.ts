/** Test helpers that book requests and credits in a store. */
import { toSettlementEntry } from '../../src/money/ledger.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import type { Store } from '../../src/store/open.ts';
import { verifyLedger } from '../../src/store/verify/verify.ts';
import { addTenant, makeKey, randomHash } from './engines.ts';

export { makeRecord } from '../support/record.ts';

export const dayMs = 24 * 3_600_000;

/** Commits the records in one batch, with one ledger entry for all charges of a tenant. */
export async function book(
  store: Store,
  records: readonly RequestRecord[],
  now = Math.max(...records.map(({ createdAt }) => createdAt)) + 1_000,
): Promise<void> {
  const entries = records.map((record) =>
    toSettlementEntry({ record, writtenOff: 0, keyAccount: null, keyCharge: 0 }),
  );
  await store.ledger.commit({ processId: 'test', entries, mayRepeat: false, now });
}

export async function grant(
  store: Store,
  tenantId: string,
  amount: number,
  now = Date.UTC(2020, 0, 1),
): Promise<void> {
  const outcome = await store.creditStore.change({
    tenantId,
    amount,
    note: 'test',
    idempotencyKey: null,
    now,
  });
  if (outcome.kind !== 'booked') throw new Error(`The grant wasn't booked: ${outcome.kind}.`);
}

/** Creates a tenant with credits and a key. */
export async function addCustomer(store: Store, credits = 1_000_000) {
  const tenantId = await addTenant(store);
  if (credits > 0) await grant(store, tenantId, credits);
  return { tenantId, keyId: await addKey(store, tenantId) };
}

export async function addKey(store: Store, tenantId: string): Promise<string> {
  const key = makeKey(tenantId);
  await store.directory.addKey(key, randomHash());
  return key.id;
}

/** Returns the discrepancies that `ledger verify` reports. */
export async function discrepancies(store: Store): Promise<string[]> {
  const lines: string[] = [];
  await verifyLedger(store.database, (line) => lines.push(line));
  return lines;
}
