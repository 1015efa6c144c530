/** How long a process may spend what it has on lease, and others may not. */
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

test('a lease that begins during a renewal lasts as long as those that it renews', async () => {
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
    commit: (batch) => ledger.commit(batch),
    commitWithAnswers: (...words) => ledger.commitWithAnswers(...words),
  };
  const one = new Wallets(slow, 'one', () => now);
  // A store that was away for a while, and does not answer after this either.
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
  const refusal = Promise.resolve(other.hold(caller, { requested: 600, minimum: 600 })).catch(
    String,
  );
  expect(String(await refusal)).toContain('needs at least 600');
  await hold.settle(0);
  await store.database.close();
  rmSync(folder, { recursive: true });
});

test('a lease that begins after the clock was set back is not used beyond its end', async () => {
  let now = Date.UTC(2030, 0, 15, 12);
  const term = new LeaseTerm(
    async () => undefined,
    () => now,
  );
  await term.renew();
  now -= 3_600_000;
  expect(term.isStaleAt(term.newLeaseEnd)).toBe(true);
});

test('leases that look ended are good again only once the store has answered', async () => {
  let now = Date.UTC(2030, 0, 15, 12);
  let isStoreAway = true;
  const renewUntil = async () => {
    if (isStoreAway) throw new Error('away');
  };
  const term = new LeaseTerm(renewUntil, () => now);
  now += 3_600_000;
  expect([await term.renewStale(), term.isStoreDown]).toEqual([false, true]);
  isStoreAway = false;
  await term.renew();
  expect([await term.renewStale(), term.isStoreDown]).toEqual([true, false]);
});

test('leases of a machine that slept are good again at once', async () => {
  const asleep = Date.UTC(2030, 0, 15, 12);
  const awake = asleep + 3_600_000;
  // Only the store knows how long it was, and is asked with each renewal.
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

test('a lease lasts from when its renewal was asked for, not from the answer', async () => {
  const start = Date.UTC(2030, 0, 15, 12);
  let now = start;
  const slow = async () => {
    now += 60_000;
  };
  const term = new LeaseTerm(slow, () => now);
  await term.renew();
  // After two minutes another process may have the lease.
  expect(term.isStaleAt(start + 120_000)).toBe(true);
});
