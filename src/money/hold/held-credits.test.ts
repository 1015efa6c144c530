/** What operators and tenants see of the credits that running requests hold, in any process. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addCustomer } from '../../../tests/contracts/bookings.ts';
import { callerOf } from '../../../tests/support/money/settlements.ts';
import type { Balance } from '../../auth/management/credits.ts';
import type { Caller } from '../../core/caller.ts';
import { openStore, type Store } from '../../store/open.ts';
import { readOverview } from '../../store/reports/totals.ts';
import { Wallets } from './wallets.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-held-credits-'));
const exactly = (credits: number) => ({ requested: credits, minimum: credits });
let now = Date.UTC(2030, 0, 15, 12);
let store: Store;
let caller: Caller;
let wallets: Wallets;
let processId: string;

beforeAll(async () => {
  store = await openStore(`sqlite:${join(folder, 'tollgate.db')}`);
});
afterAll(async () => {
  await store.database.close();
  rmSync(folder, { recursive: true });
});
beforeEach(async () => {
  now += 86_400_000;
  processId = `process-${now}`;
  caller = callerOf((await addCustomer(store, 1_000)).tenantId);
  wallets = new Wallets(store.ledger, processId, () => now);
});

const shown = (reader?: string): Promise<Balance | undefined> =>
  store.creditStore.balance(caller.tenantId, reader);

test('other processes see what running requests hold, but not what is only leased', async () => {
  const hold = await wallets.hold(caller, exactly(100));
  await wallets.reportHolds();
  // The lease has an eighth of the other 900 credits in addition to the hold, in whole holds.
  const held = { balance: 1_000, leased: 200, held: 100 };
  expect(await shown()).toEqual(held);
  expect([await shown('another'), await shown(processId)]).toEqual([held, { ...held, held: 0 }]);
  expect(await store.walletTotals.totals(caller.tenantId)).toMatchObject({ held: 100 });
  expect(wallets.heldCredits(caller.tenantId)).toBe(100);

  await hold.settle(0);
  await wallets.reportHolds();
  expect(await shown()).toEqual({ ...held, held: 0 });
  expect(wallets.heldCredits()).toBe(0);
});

test("a key's limit does not count its wallet's holds twice", async () => {
  const limited = callerOf(caller.tenantId, { keyId: `k-${now}`, limitCredits: 500 });
  const before = await readOverview(store.database);
  await wallets.hold(limited, exactly(100));
  await wallets.reportHolds();
  expect([wallets.heldCredits(), wallets.totals().heldCredits]).toEqual([100, 200]);
  const after = await readOverview(store.database);
  expect(after.balance.held - before.balance.held).toBe(100);
});

test('holds are reported again for a new lease', async () => {
  const hold = await wallets.hold(caller, exactly(200));
  await wallets.reportHolds();
  // The lease expires while this process sleeps.
  now += 200_000;
  await store.ledger.expire(now);
  await wallets.renew();
  expect(await shown()).toMatchObject({ leased: 0, held: 0 });
  await hold.extend(100);
  await wallets.reportHolds();
  expect(await shown()).toMatchObject({ held: 300 });
});

test('holds are reported only when they have changed', async () => {
  let reports = 0;
  const { ledger } = store;
  const counting = new Proxy(ledger, {
    get: (target, name: keyof typeof ledger) => {
      if (name === 'reportHolds') reports++;
      return target[name].bind(target);
    },
  });
  wallets = new Wallets(counting, processId, () => now);
  const hold = await wallets.hold(caller, exactly(200));
  for (let times = 0; times < 3; times++) await wallets.reportHolds();
  expect(reports).toBe(1);
  await hold.settle(0);
  for (let times = 0; times < 3; times++) await wallets.reportHolds();
  expect(reports).toBe(2);
});

test('a process that ends leaves no holds behind', async () => {
  const hold = await wallets.hold(caller, exactly(200));
  await wallets.reportHolds();
  await hold.settle(0);
  await wallets.returnAll();
  expect(await shown()).toEqual({ balance: 1_000, leased: 0, held: 0 });
});

test('credits of an expired lease are not shown as held', async () => {
  const past = new Wallets(store.ledger, processId, () => Date.now() - 86_400_000);
  await past.hold(caller, exactly(200));
  await past.reportHolds();
  expect(await shown()).toEqual({ balance: 1_000, leased: 200, held: 0 });
});
