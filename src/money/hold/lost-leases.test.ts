/** A store that does what it is asked, and is not heard to say so. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addCustomer } from '../../../tests/contracts/bookings.ts';
import { callerOf } from '../../../tests/support/money/settlements.ts';
import type { Caller } from '../../core/caller.ts';
import { openStore, type Store } from '../../store/open.ts';
import type { LedgerStore } from '../ledger.ts';
import { Wallets } from './wallets.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-lost-leases-'));
let now = Date.UTC(2030, 0, 15, 12);
const exactly = (credits: number) => ({ requested: credits, minimum: credits });
let store: Store;
let caller: Caller;
let isDeaf = false;
/** The store's answers to renewals and returned credits are heard once this resolves. */
let heard: Promise<void>;
let orders: number[] = [];
let unsure: Wallets;

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
  isDeaf = false;
  heard = Promise.resolve();
  orders = [];
  const { ledger } = store;
  const lease: LedgerStore['lease'] = async (amounts) => {
    orders.push(amounts.credits);
    const answer = await ledger.lease(amounts);
    if (isDeaf) throw new Error('lost');
    return answer;
  };
  unsure = walletsOf('unsure', {
    lease,
    returnCredits: (back) => ledger.returnCredits(back).then(() => heard),
    renew: async (id, until) => {
      const alive = await ledger.renew(id, until);
      await heard;
      return alive;
    },
    expire: (at, dead) => ledger.expire(at, dead),
    recall: (owner, id) => ledger.recall(owner, id),
    pendingRecalls: (id) => ledger.pendingRecalls(id),
    commit: (batch) => ledger.commit(batch),
    commitWithAnswers: (...words) => ledger.commitWithAnswers(...words),
  });
});

function walletsOf(name: string, ledger: LedgerStore, pause = () => Bun.sleep(1)): Wallets {
  return new Wallets(ledger, `${name} of ${caller.tenantId}`, () => now, pause);
}

async function leased(): Promise<number | undefined> {
  return (await store.creditBook.balance(caller.tenantId))?.leased;
}

/** The store leases so many credits, and its answer is lost. */
async function lose(credits: number): Promise<void> {
  isDeaf = true;
  const refused = Promise.resolve(unsure.hold(caller, exactly(credits))).catch(String);
  expect(await refused).toContain('The credit store cannot be reached');
  isDeaf = false;
}

test('a lease whose answer was lost comes back with the next renewal, once', async () => {
  await lose(1_000);
  expect(await leased()).toBe(1_000);
  await unsure.renew();
  expect(await leased()).toBe(0);
  await unsure.renew();
  expect(orders).toEqual([1_000, 0]);
});

test('a lease whose answer was lost is not forgotten while nobody uses it', async () => {
  await lose(1_000);
  now += 6_000;
  await unsure.returnIdle();
  await unsure.renew();
  expect(await leased()).toBe(0);
});

test('a lease that begins while the one before it ends is counted', async () => {
  await (await unsure.hold(caller, exactly(100))).settle(0);
  await store.ledger.recall(`tenant:${caller.tenantId}`, 'another');
  await unsure.answerRecalls();
  const { promise, resolve } = Promise.withResolvers<void>();
  heard = promise;
  // The store ends the lease, which is empty now.
  const renewal = unsure.renew();
  await unsure.hold(caller, exactly(300));
  resolve();
  await renewal;
  expect(unsure.totals()).toMatchObject({ leasedCredits: await leased(), heldCredits: 300 });
});

test('a lease that is asked for while the last credits go back is counted', async () => {
  await (await unsure.hold(caller, exactly(100))).settle(0);
  await unsure.renew();
  const { promise, resolve } = Promise.withResolvers<void>();
  heard = promise;
  now += 6_000;
  const returning = unsure.returnIdle();
  while ((await leased()) !== 0) await Bun.sleep(1);
  const holding = unsure.hold(caller, exactly(300));
  resolve();
  await returning;
  await (await holding).settle(20);
  expect(unsure.totals()).toMatchObject({ leasedCredits: await leased(), owedCredits: 20 });
});

test('a lease whose answer was lost goes to another process that starves', async () => {
  await lose(1_000);
  const poor = walletsOf('poor', store.ledger, () => unsure.answerRecalls());
  expect((await poor.hold(caller, exactly(700))).credits).toBe(700);
});

test('a process with nothing to give says so, and nobody waits for more', async () => {
  await unsure.hold(caller, exactly(1_000));
  let pauses = 0;
  const poor = walletsOf('poor', store.ledger, () => {
    pauses += 1;
    return unsure.answerRecalls();
  });
  const refused = Promise.resolve(poor.hold(caller, exactly(1))).catch(String);
  expect(await refused).toContain('This account has 0 credits left');
  expect(pauses).toBe(1);
});

test('a question for the balance leases nothing, and ends no doubt about a lease', async () => {
  const hold = await unsure.hold(caller, exactly(100));
  await lose(500);
  const before = await leased();
  expect(before).toBeGreaterThanOrEqual(600);
  expect(await hold.maxCredits(5_000)).toBeGreaterThan(100);
  expect([orders.at(-1), await leased()]).toEqual([0, before]);
  await unsure.renew();
  expect(unsure.totals()).toMatchObject({ leasedCredits: await leased(), heldCredits: 100 });
});
