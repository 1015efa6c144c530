/** All spending of a key counts toward its limit, even if the limit changes. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { LimitReset } from '../../src/core/caller.ts';
import { randomText } from '../../src/core/ids.ts';
import { keyLimitAccount, toSettlementEntry } from '../../src/money/ledger.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import { discrepancies } from '../support/ledger-check.ts';
import { callerOf, settlementOf } from '../support/money/settlements.ts';
import { addCustomer } from './bookings.ts';
import { engines, openTwice, type TwoStores } from './engines.ts';

const later = 2_000_000_000_000;
/** A Wednesday. */
const now = Date.parse('2027-01-13T12:00Z');

describe.each([...engines])('key limits on $name', ({ empty }) => {
  let stores: TwoStores;
  let leaseNumber = 0;

  beforeAll(async () => {
    stores = await openTwice(empty);
  }, 120_000);
  afterAll(async () => {
    expect(await discrepancies(stores.one.database)).toEqual([]);
    await stores.close();
  });

  /** Creates a key, with functions that spend credits and read what is left of a limit. */
  async function newKey() {
    const { tenantId } = await addCustomer(stores.one, 10_000);
    const keyId = randomText(8);
    const owner = (limitCredits: number | null, limitReset: LimitReset | null) =>
      keyLimitAccount(callerOf(tenantId, { keyId, limitCredits, limitReset }), now);
    return {
      async spend(
        charge: number,
        at = now,
        limit: [number, LimitReset | null] | null = null,
        change: Partial<RequestRecord> = {},
      ) {
        const account = limit && owner(...limit);
        const settlement = settlementOf(crypto.randomUUID(), { tenantId, keyId }, charge, {
          createdAt: at,
          ...change,
        });
        const charged = { keyAccount: account?.name ?? null, keyCharge: account ? charge : 0 };
        const entries = [toSettlementEntry({ ...settlement, ...charged })];
        await stores.one.ledger.commit({
          processId: 'p',
          entries,
          mayRepeat: false,
          now: at,
        });
      },
      /** Leases all the credits left in a limit, returns the lease, and returns their number. */
      async left(limit: number, reset: LimitReset | null = null): Promise<number> {
        const account = owner(limit, reset);
        if (!account) throw new Error('A key with a limit has an account.');
        const { granted, lease } = await stores.other.ledger.lease({
          owner: account,
          processId: 'p',
          number: ++leaseNumber,
          startNew: false,
          credits: limit,
          oneHold: 0,
          until: later,
          now,
        });
        const returned = { processId: 'p', owner: account.name, lease, credits: granted };
        await stores.other.ledger.returnCredits(returned);
        return granted;
      },
    };
  }

  test('count spending from before the limit was set', async () => {
    const key = await newKey();
    await key.spend(30);
    expect(await key.left(50)).toBe(20);
    expect(await key.left(25)).toBe(0);
    expect(await key.left(60)).toBe(30);
    expect(await key.left(61)).toBe(31);
    expect(await key.left(60)).toBe(30);
  });

  test('count every fee', async () => {
    const key = await newKey();
    const charges = { modelCharge: 1, byokPlatformFee: 2, managedToolFee: 4, agentRuntimeFee: 8 };
    await key.spend(15, now, null, { charges });
    await key.spend(15, now, null, { charges });
    expect(await key.left(100)).toBe(70);
  });

  test('count spending while the limit was removed', async () => {
    const key = await newKey();
    expect(await key.left(100)).toBe(100);
    await key.spend(40, now, [100, null]);
    await key.spend(30);
    expect(await key.left(100)).toBe(30);
    await key.spend(30, now, [100, null]);
    expect(await key.left(100)).toBe(0);
  });

  test('do not start over when the reset period changes', async () => {
    const key = await newKey();
    expect(await key.left(100, 'daily')).toBe(100);
    await key.spend(100, now, [100, 'daily']);
    for (const reset of ['weekly', 'monthly', null, 'daily'] as const) {
      expect([reset, await key.left(100, reset)]).toEqual([reset, 0]);
    }
  });

  test('count only the days of the reset period', async () => {
    const key = await newKey();
    for (const [at, charge] of [
      ['2026-12-31T23:59:59.999Z', 1],
      ['2027-01-01T00:00Z', 2],
      ['2027-01-10T23:59:59.999Z', 4],
      ['2027-01-11T00:00Z', 8],
      ['2027-01-12T23:59:59.999Z', 16],
      ['2027-01-13T00:00Z', 32],
      // Another process may book charges of the next period before this period's lease ends.
      ['2027-01-14T00:00Z', 64],
      ['2027-01-18T00:00Z', 128],
      ['2027-02-01T00:00Z', 256],
    ] as const) {
      await key.spend(charge, Date.parse(at));
    }
    expect(await key.left(1000, 'daily')).toBe(1000 - 32);
    expect(await key.left(1000, 'weekly')).toBe(1000 - 8 - 16 - 32 - 64);
    expect(await key.left(1000, 'monthly')).toBe(1000 - 2 - 4 - 8 - 16 - 32 - 64 - 128);
    expect(await key.left(1000)).toBe(1000 - 511);
  });
});
