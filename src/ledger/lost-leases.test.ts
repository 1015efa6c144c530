/** A store that does what it is asked, and is not heard to say so. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addCustomer } from '../../tests/contracts/bookings.ts';
import { callerOf } from '../../tests/support/money/settlements.ts';
import type { Caller } from '../core/caller.ts';
import { openStore, type Store } from '../store/open.ts';
import type { LedgerStore } from './ledger-store.ts';
import { Wallets } from './wallets.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-lost-leases-'));
const now = Date.UTC(2030, 0, 15, 12);
const exactly = (credits: number) => ({ wanted: credits, least: credits });
let store: Store;
let caller: Caller;
let isDeaf = false;
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
  orders = [];
  const { ledger } = store;
  const lease: LedgerStore['lease'] = async (order) => {
    orders.push(order.credits);
    const answer = await ledger.lease(order);
    if (isDeaf) throw new Error('lost');
    return answer;
  };
  unsure = walletsOf('unsure', {
    lease,
    giveBack: (back) => ledger.giveBack(back),
    renew: (id, until) => ledger.renew(id, until),
    expire: (at, dead) => ledger.expire(at, dead),
    recall: (owner, id) => ledger.recall(owner, id),
    recalled: (id) => ledger.recalled(id),
    commit: (batch) => ledger.commit(batch),
    commitWith: (...words) => ledger.commitWith(...words),
  });
});

function walletsOf(name: string, ledger: LedgerStore, pause = () => Bun.sleep(1)): Wallets {
  return new Wallets(ledger, `${name} of ${caller.tenantId}`, () => now, pause);
}

async function leased(): Promise<number | undefined> {
  return (await store.creditBook.balance(caller.tenantId))?.leased;
}

/** So many credits are leased, and nobody here knows. */
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

test('a lease whose answer was lost goes to another process that starves', async () => {
  await lose(1_000);
  const poor = walletsOf('poor', store.ledger, () => unsure.answerRecalls());
  expect((await poor.hold(caller, exactly(700))).credits).toBe(700);
});

test('a question for the balance leases nothing, and ends no doubt about a lease', async () => {
  const hold = await unsure.hold(caller, exactly(100));
  await lose(500);
  const before = await leased();
  expect(before).toBeGreaterThanOrEqual(600);
  expect(await hold.reach(5_000)).toBeGreaterThan(100);
  expect([orders.at(-1), await leased()]).toEqual([0, before]);
  await unsure.renew();
  expect(unsure.totals()).toMatchObject({ leasedCredits: await leased(), heldCredits: 100 });
});
