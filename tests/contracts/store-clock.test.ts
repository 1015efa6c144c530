/** Processes whose own clock is wrong use the clock of a shared store. */
import { afterEach, describe, expect, setSystemTime, test } from 'bun:test';
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

describe('StoreClock', () => {
  test.each([-hourMs, hourMs])(
    "returns the database's time if the local clock is off by %d ms",
    async (offMs) => {
      const { one } = await openOnPostgres();
      const realTime = Date.now();
      setSystemTime(realTime + offMs);
      const clock = await StoreClock.open(one.database);
      expect(Math.abs(clock.now() - realTime)).toBeLessThan(60_000);
    },
  );

  test("returns the database's time after the local clock is set back", async () => {
    const { one } = await openOnPostgres();
    const realTime = Date.now();
    const clock = await StoreClock.open(one.database);
    setSystemTime(realTime - hourMs);
    expect(Math.abs(clock.now() - realTime)).toBeLessThan(60_000);
  });

  test('moves forward by less than an hour when the clock is set forward by weeks', async () => {
    const { one } = await openOnPostgres();
    const realTime = Date.now();
    const clock = await StoreClock.open(one.database);
    setSystemTime(realTime + 30 * 24 * hourMs);
    expect(clock.now() - realTime).toBeWithin(leaseMs, hourMs);
    await clock.sync();
    expect(Math.abs(clock.now() - realTime)).toBeLessThan(60_000);
  });

  test("returns the database's time if the local clock is set back during a reading", async () => {
    const { one } = await openOnPostgres();
    const realTime = Date.now();
    const clock = await StoreClock.open(one.database);
    const reading = clock.sync();
    setSystemTime(realTime - hourMs);
    await reading;
    expect(Math.abs(clock.now() - realTime)).toBeLessThan(60_000);
  });

  test('expires only leases that have ended when the clock is set forward', async () => {
    const { one, other } = await openOnPostgres();
    const tenantId = await addTenant(one);
    const grant = { tenantId, amount: 1_000, note: '', idempotencyKey: null, now: Date.now() };
    await one.creditStore.change(grant);
    const clock = await StoreClock.open(other.database);
    const ledger = withStoreClock(other.ledger, clock);
    const owner = { name: `tenant:${tenantId}`, tenantId, allowance: null };
    const now = Date.now();
    const request = { owner, number: 1, startNew: false, credits: 100, oneHold: 100, now };
    await one.ledger.lease({ ...request, processId: 'alive', until: now + leaseMs });
    await one.ledger.lease({ ...request, processId: 'expired', until: now - 1 });

    setSystemTime(now + hourMs);
    await ledger.expire(Date.now());
    expect([...(await one.ledger.renew('alive', now + leaseMs))]).toEqual([owner.name]);
    expect([...(await one.ledger.renew('expired', now + leaseMs))]).toEqual([]);
  });

  test('holds no credits on expired leases after the machine slept for an hour', async () => {
    const { one, other } = await openOnPostgres();
    const tenantId = await addTenant(one);
    const grant = { tenantId, amount: 1_000, note: '', idempotencyKey: null, now: Date.now() };
    await one.creditStore.change(grant);
    // The machine's clocks stopped for an hour. They advance 10 minutes before the next reading.
    let behindMs = hourMs;
    const now = () => Date.now() - behindMs;
    const set = async () => {
      behindMs = 0;
    };
    const wallets = new Wallets(withStoreClock(one.ledger, { now, sync: set }), 'slept', now);
    behindMs = hourMs - 600_000;
    const hold = async () => wallets.hold(callerOf(tenantId), { requested: 100, minimum: 100 });
    expect((await hold().catch(hold)).credits).toBe(100);

    await other.ledger.expire(Date.now());
    const alive = await other.ledger.renew('slept', Date.now() + leaseMs);
    expect([...alive]).toEqual([`tenant:${tenantId}`]);
  });
});
