/** Leases with a store whose calls succeed, but whose responses are lost. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addCustomer } from '../../../tests/contracts/bookings.ts';
import { callerOf } from '../../../tests/support/money/settlements.ts';
import { waitUntil } from '../../../tests/support/wait-until.ts';
import type { Caller } from '../../core/caller.ts';
import { openStore, type Store } from '../../store/open.ts';
import type { LedgerStore } from '../ledger.ts';
import { Wallets } from './wallets.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-lost-leases-'));
let now = Date.UTC(2030, 0, 15, 12);
const exactly = (credits: number) => ({ requested: credits, minimum: credits });
let store: Store;
let caller: Caller;
let losesResponses = false;
/** Delays the responses to renewals and returns. */
let responseDelay: Promise<void>;
let requestedCredits: number[] = [];
let wallets: Wallets;

beforeAll(async () => {
  store = await openStore(`sqlite:${join(folder, 'tollgate.db')}`);
});
afterAll(async () => {
  await store.database.close();
  rmSync(folder, { recursive: true });
});
beforeEach(async () => {
  const { tenantId } = await addCustomer(store, 1_000);
  caller = callerOf(tenantId);
  losesResponses = false;
  responseDelay = Promise.resolve();
  requestedCredits = [];
  const { ledger } = store;
  const lease: LedgerStore['lease'] = async (amounts) => {
    requestedCredits.push(amounts.credits);
    const result = await ledger.lease(amounts);
    if (losesResponses) throw new Error('lost');
    return result;
  };
  wallets = walletsOf('unsure', {
    lease,
    returnCredits: (back) => ledger.returnCredits(back).then(() => responseDelay),
    renew: async (id, until) => {
      const alive = await ledger.renew(id, until);
      await responseDelay;
      return alive;
    },
    expire: (at, dead) => ledger.expire(at, dead),
    recall: (owner, id) => ledger.recall(owner, id),
    pendingRecalls: (id) => ledger.pendingRecalls(id),
    reportHolds: (id, holds) => ledger.reportHolds(id, holds),
    commit: (batch) => ledger.commit(batch),
    commitWithAnswers: (...args) => ledger.commitWithAnswers(...args),
  });
});

function walletsOf(name: string, ledger: LedgerStore, pause = () => Bun.sleep(1)): Wallets {
  return new Wallets(ledger, `${name} of ${caller.tenantId}`, () => now, pause);
}

async function leased(): Promise<number | undefined> {
  return (await store.creditStore.balance(caller.tenantId))?.leased;
}

/** Leases credits in the store and loses the response. */
async function lose(credits: number): Promise<void> {
  losesResponses = true;
  const rejected = Promise.resolve(wallets.hold(caller, exactly(credits))).catch(String);
  expect(await rejected).toContain("The credit store can't be reached");
  losesResponses = false;
}

test('Wallets return a lease whose response was lost at the next renewal, and only once', async () => {
  await lose(1_000);
  expect(await leased()).toBe(1_000);
  await wallets.renew();
  expect(await leased()).toBe(0);
  await wallets.renew();
  expect(requestedCredits).toEqual([1_000, 0]);
});

test('Wallets return a lease whose response was lost, even if the account is idle', async () => {
  await lose(1_000);
  now += 6_000;
  await wallets.returnIdle();
  await wallets.renew();
  expect(await leased()).toBe(0);
});

test('Wallets count a lease that starts while the previous one ends', async () => {
  await (await wallets.hold(caller, exactly(100))).settle(0);
  await store.ledger.recall(`tenant:${caller.tenantId}`, 'another');
  await wallets.answerRecalls();
  const { promise, resolve } = Promise.withResolvers<void>();
  responseDelay = promise;
  // The store ends the lease, because it is empty.
  const renewal = wallets.renew();
  await wallets.hold(caller, exactly(300));
  resolve();
  await renewal;
  expect(wallets.totals()).toMatchObject({ leasedCredits: await leased(), heldCredits: 300 });
});

test('Wallets count a lease requested while the last credits are returned', async () => {
  await (await wallets.hold(caller, exactly(100))).settle(0);
  await wallets.renew();
  const { promise, resolve } = Promise.withResolvers<void>();
  responseDelay = promise;
  now += 6_000;
  const returning = wallets.returnIdle();
  await waitUntil(async () => (await leased()) === 0);
  const holding = wallets.hold(caller, exactly(300));
  resolve();
  await returning;
  await (await holding).settle(20);
  expect(wallets.totals()).toMatchObject({ leasedCredits: await leased(), unbookedCredits: 20 });
});

test('Wallets let another process have the credits of a lease whose response was lost', async () => {
  await lose(1_000);
  const poor = walletsOf('poor', store.ledger, () => wallets.answerRecalls());
  expect((await poor.hold(caller, exactly(700))).credits).toBe(700);
});

test('Wallets answer a recall even with 0 credits, so that the other process stops waiting', async () => {
  await wallets.hold(caller, exactly(1_000));
  let pauses = 0;
  const poor = walletsOf('poor', store.ledger, () => {
    pauses += 1;
    return wallets.answerRecalls();
  });
  const rejected = Promise.resolve(poor.hold(caller, exactly(1))).catch(String);
  expect(await rejected).toContain('This account has 0 credits left');
  expect(pauses).toBe(1);
});

test('Wallets read a balance without leasing credits or replacing a lease in doubt', async () => {
  const hold = await wallets.hold(caller, exactly(100));
  await lose(500);
  const before = await leased();
  expect(before).toBeGreaterThanOrEqual(600);
  expect(await hold.maxCredits(5_000)).toBeGreaterThan(100);
  expect([requestedCredits.at(-1), await leased()]).toEqual([0, before]);
  await wallets.renew();
  expect(wallets.totals()).toMatchObject({ leasedCredits: await leased(), heldCredits: 100 });
});
