import { expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addCustomer } from '../../../tests/contracts/bookings.ts';
import { callerOf } from '../../../tests/support/caller.ts';
import { openStore } from '../../store/open.ts';
import type { LedgerStore } from '../ledger.ts';
import { LeaseTerm } from './lease-term.ts';
import { Wallets } from './wallets.ts';

test('LeaseTerm lets a lease that starts during a renewal expire no earlier than the renewed ones', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-lease-term-'));
  const store = await openStore(`sqlite:${join(folder, 'tollgate.db')}`);
  const caller = callerOf((await addCustomer(store, 1_000)).tenantId);
  let now = Date.UTC(2030, 0, 15, 12);
  const { ledger } = store;
  const answered = Promise.withResolvers<void>();
  const slow: LedgerStore = {
    lease: (amounts) => ledger.lease(amounts),
    async renew(id, until) {
      const alive = await ledger.renew(id, until);
      await answered.promise;
      return alive;
    },
    returnCredits: (back) => ledger.returnCredits(back),
    expire: (at, dead) => ledger.expire(at, dead),
    recall: (owner, id) => ledger.recall(owner, id),
    pendingRecalls: (id) => ledger.pendingRecalls(id),
    reportHolds: (id, holds) => ledger.reportHolds(id, holds),
    commit: (batch) => ledger.commit(batch),
    commitWithAnswers: (...args) => ledger.commitWithAnswers(...args),
  };
  const one = new Wallets(slow, 'one', () => now);
  // The store was down for a while and stays down.
  now += 100_000;
  const renewal = one.renew();
  const hold = await one.hold(caller, { requested: 600, minimum: 600 });
  answered.resolve();
  await renewal;

  now += 30_000;
  const other = new Wallets(
    ledger,
    'other',
    () => now,
    () => Bun.sleep(1),
  );
  await other.renew();
  const rejection = Promise.resolve(other.hold(caller, { requested: 600, minimum: 600 })).catch(
    String,
  );
  expect(String(await rejection)).toContain('600 credits are leased to');
  await hold.settle(0);
  await store.database.close();
  rmSync(folder, { recursive: true });
});

test('LeaseTerm does not use a lease beyond its end after the clock was set back', async () => {
  let now = Date.UTC(2030, 0, 15, 12);
  const term = new LeaseTerm(
    async () => undefined,
    () => now,
  );
  await term.renew();
  now -= 3_600_000;
  expect(term.isStaleAt(term.newLeaseEnd)).toBe(true);
});

test('LeaseTerm keeps leases that look expired unusable until the store responds', async () => {
  let now = Date.UTC(2030, 0, 15, 12);
  let isStoreDown = true;
  const renewUntil = async () => {
    if (isStoreDown) throw new Error('unavailable');
  };
  const term = new LeaseTerm(renewUntil, () => now);
  now += 3_600_000;
  expect([await term.renewStale(), term.isStoreDown]).toEqual([false, true]);
  isStoreDown = false;
  await term.renew();
  expect([await term.renewStale(), term.isStoreDown]).toEqual([true, false]);
});

test('LeaseTerm renews leases at once after the machine slept', async () => {
  const asleep = Date.UTC(2030, 0, 15, 12);
  const awake = asleep + 3_600_000;
  // The process learns the current time from the store with each renewal.
  let now = asleep;
  const term = new LeaseTerm(
    async () => {
      now = awake;
    },
    () => now,
  );
  now += 600_000;
  expect([await term.renewStale(), term.isStaleAt(awake)]).toEqual([true, false]);
});

test('LeaseTerm measures a lease from when its renewal starts, not from when it finishes', async () => {
  const start = Date.UTC(2030, 0, 15, 12);
  let now = start;
  const slow = async () => {
    now += 60_000;
  };
  const term = new LeaseTerm(slow, () => now);
  await term.renew();
  // After 2 minutes, another process may have the credits.
  expect(term.isStaleAt(start + 120_000)).toBe(true);
});
