/** A process whose own clock is wrong, on a store that others use too. */
import { afterEach, expect, setSystemTime, test } from 'bun:test';
import { Wallets } from '../../src/money/hold/wallets.ts';
import { StoreClock, withStoreClock } from '../../src/store/clock.ts';
import { callerOf } from '../support/caller.ts';
import { addTenant, engines, openTwice, type TwoStores } from './engines.ts';

const hourMs = 3_600_000;
const leaseMs = 120_000;

let stores: TwoStores | undefined;

afterEach(async () => {
  setSystemTime();
  await stores?.close();
});

async function openOnPostgres(): Promise<TwoStores> {
  const postgres = engines.find(({ name }) => name === 'Postgres');
  if (!postgres) throw new Error('There is no Postgres.');
  stores = await openTwice(postgres.empty);
  return stores;
}

test.each([-hourMs, hourMs])('a clock that is %d ms off tells the store’s time', async (offMs) => {
  const { one } = await openOnPostgres();
  const rightly = Date.now();
  setSystemTime(rightly + offMs);
  const clock = await StoreClock.open(one.database);
  expect(Math.abs(clock.now() - rightly)).toBeLessThan(60_000);
});

test('a clock that is set back tells the store’s time, also before we ask again', async () => {
  const { one } = await openOnPostgres();
  const rightly = Date.now();
  const clock = await StoreClock.open(one.database);
  setSystemTime(rightly - hourMs);
  expect(Math.abs(clock.now() - rightly)).toBeLessThan(60_000);
});

test('a clock that is set forward by weeks ends leases, but nothing that lasts a day', async () => {
  const { one } = await openOnPostgres();
  const rightly = Date.now();
  const clock = await StoreClock.open(one.database);
  setSystemTime(rightly + 30 * 24 * hourMs);
  expect(clock.now() - rightly).toBeWithin(leaseMs, hourMs);
  await clock.set();
  expect(Math.abs(clock.now() - rightly)).toBeLessThan(60_000);
});

test('a clock that is set back while we ask tells the store’s time within one trip', async () => {
  const { one } = await openOnPostgres();
  const rightly = Date.now();
  const clock = await StoreClock.open(one.database);
  const asked = clock.set();
  setSystemTime(rightly - hourMs);
  await asked;
  expect(Math.abs(clock.now() - rightly)).toBeLessThan(60_000);
});

test('a clock that is set forward ends nobody else’s lease, only what is over', async () => {
  const { one, other } = await openOnPostgres();
  const tenantId = await addTenant(one);
  const grant = { tenantId, amount: 1_000, note: '', idempotencyKey: null, now: Date.now() };
  await one.creditStore.change(grant);
  const clock = await StoreClock.open(other.database);
  const ledger = withStoreClock(other.ledger, clock);
  const owner = { name: `tenant:${tenantId}`, tenantId, allowance: null };
  const now = Date.now();
  const order = { owner, number: 1, startNew: false, credits: 100, oneHold: 100, now };
  await one.ledger.lease({ ...order, processId: 'alive', until: now + leaseMs });
  await one.ledger.lease({ ...order, processId: 'gone', until: now - 1 });

  setSystemTime(now + hourMs);
  await ledger.expire(Date.now());
  expect([...(await one.ledger.renew('alive', now + leaseMs))]).toEqual([owner.name]);
  expect([...(await one.ledger.renew('gone', now + leaseMs))]).toEqual([]);
});

test('a machine that slept for an hour holds nothing on leases that are over', async () => {
  const { one, other } = await openOnPostgres();
  const tenantId = await addTenant(one);
  const grant = { tenantId, amount: 1_000, note: '', idempotencyKey: null, now: Date.now() };
  await one.creditStore.change(grant);
  // Its clocks stood still for the hour, and tell of ten minutes until it asks.
  let behindMs = hourMs;
  const now = () => Date.now() - behindMs;
  const set = async () => {
    behindMs = 0;
  };
  const wallets = new Wallets(withStoreClock(one.ledger, { now, set }), 'slept', now);
  behindMs = hourMs - 600_000;
  const hold = async () => wallets.hold(callerOf(tenantId), { requested: 100, minimum: 100 });
  expect((await hold().catch(hold)).credits).toBe(100);

  await other.ledger.expire(Date.now());
  const alive = await other.ledger.renew('slept', Date.now() + leaseMs);
  expect([...alive]).toEqual([`tenant:${tenantId}`]);
});
