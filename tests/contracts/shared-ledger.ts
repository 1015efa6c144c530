/** Test helpers for a ledger that two processes share. */
import { afterAll, beforeAll, expect } from 'bun:test';
import type { LeaseRequest, Settlement } from '../../src/money/ledger.ts';
import { type Owner, toSettlementEntry } from '../../src/money/ledger.ts';
import { discrepancies } from '../support/ledger-check.ts';
import { grant } from './bookings.ts';
import { addTenant, type EmptyDatabase, openTwice, type TwoStores } from './engines.ts';

/** An expiry in the future. */
export const later = 2_000_000_000_000;

/** Opens two stores for the tests of a suite, and verifies the ledger after the last one. */
export function sharedLedger(empty: () => Promise<EmptyDatabase>) {
  const stores = {} as { -readonly [Name in keyof TwoStores]: TwoStores[Name] };
  let leaseNumber = 0;

  beforeAll(async () => {
    Object.assign(stores, await openTwice(empty));
  }, 120_000);
  afterAll(async () => {
    expect(await discrepancies(stores.one.database)).toEqual([]);
    await stores.close();
  });

  /** Creates a tenant with these credits and returns its ID. */
  async function tenantWith(credits: number): Promise<string> {
    const tenantId = await addTenant(stores.one);
    if (credits > 0) await grant(stores.one, tenantId, credits, 1);
    return tenantId;
  }

  /** Requests exactly these credits unless `oneHold` is set. */
  function leaseRequest(owner: Owner, change: Partial<LeaseRequest> = {}): LeaseRequest {
    const base = {
      processId: 'p1',
      startNew: false,
      credits: 10,
      oneHold: 0,
      until: later,
      now: 1,
    };
    return { owner, number: ++leaseNumber, ...base, ...change };
  }

  const lease = (owner: Owner, change: Partial<LeaseRequest> = {}) =>
    stores.one.ledger.lease(leaseRequest(owner, change));

  async function account(owner: Owner) {
    return stores.one.database.read
      .selectFrom('accounts')
      .select(['balance', 'leased', 'granted', 'spent'])
      .where('owner', '=', owner.name)
      .executeTakeFirst();
  }

  const commit = (settlements: readonly Settlement[], change = {}) =>
    stores.one.ledger.commit({
      processId: 'p1',
      entries: settlements.map(toSettlementEntry),
      mayRepeat: false,
      now: 2,
      ...change,
    });

  return { stores, tenantWith, leaseRequest, lease, account, commit };
}
