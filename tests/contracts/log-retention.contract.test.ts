/** How long the request log is kept and shown, whatever a clock has said before. */
import { afterEach, describe, expect, test } from 'bun:test';
import { LogRetention, logsSince } from '../../src/store/retention.ts';
import { addCustomer, book, dayMs, discrepancies, makeRecord } from './bookings.ts';
import { engines, openTwice, type TwoStores } from './engines.ts';

const now = Date.UTC(2028, 4, 10, 12);

let stores: TwoStores | undefined;
afterEach(() => stores?.close());

describe.each([...engines])('the request log on $name', ({ empty }) => {
  async function removeOld(at: number, keepDays: number): Promise<void> {
    if (!stores) throw new Error('There is no store.');
    const onFailure = (error: unknown) => {
      throw error;
    };
    const { database } = stores.one;
    const parts = { database, keepDays, now: () => at, onDone: () => undefined, onFailure };
    await new LogRetention(parts).run();
  }

  test('is shown again from the next day on when a clock was a year ahead', async () => {
    stores = await openTwice(empty);
    const { one: store } = stores;
    const own = await addCustomer(store);
    const { tenantId } = own;
    const period = { from: 0, until: now + 90 * dayMs };
    const all = { tenantId, ...period, status: null, model: null, keyId: null };
    const shown = async () => {
      const { rows, total } = await store.logs.page(all, 9, 0);
      expect(total).toBe(rows.length);
      return rows.map(({ createdAt }) => createdAt);
    };
    await book(store, [makeRecord({ ...own, createdAt: now })]);
    await removeOld(now + 365 * dayMs, 30);
    expect(await shown()).toEqual([]);

    await removeOld(now, 30);
    await book(store, [makeRecord({ ...own, createdAt: now + dayMs })]);
    expect(await shown()).toEqual([now + dayMs]);
    expect(await discrepancies(store)).toEqual([]);
    // As before: a longer retention brings nothing back, and a later day removes what is old.
    await removeOld(now + dayMs, 300);
    expect(await shown()).toEqual([now + dayMs]);
    await removeOld(now + 40 * dayMs, 30);
    expect(await shown()).toEqual([]);
  });

  test('stays whole from the same day on while a machine has not heard the time', async () => {
    stores = await openTwice(empty);
    const { one: store } = stores;
    const own = await addCustomer(store);
    await book(store, [makeRecord({ ...own, createdAt: now - 90 * dayMs })], now - 90 * dayMs);
    await removeOld(now, 30);
    const day = await logsSince(store.database);
    expect(new Date(day).toISOString()).toBe('2028-04-10T00:00:00.000Z');

    // Without a battery, a clock begins in 1970 until the network tells it better.
    await removeOld(3 * 60_000, 30);
    expect(await logsSince(store.database)).toBe(day);
    expect(await discrepancies(store)).toEqual([]);
  });
});
