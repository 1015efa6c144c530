import { afterEach, describe, expect, test } from 'bun:test';
import { LogRetention, logsSince } from '../../src/store/retention.ts';
import { addCustomer, book, dayMs, discrepancies, makeRecord } from './bookings.ts';
import { engines, openTwice, type TwoStores } from './engines.ts';

const now = Date.UTC(2028, 4, 10, 12);

let stores: TwoStores | undefined;
afterEach(() => stores?.close());

describe.each([...engines])('LogRetention on $name', ({ empty }) => {
  async function removeOld(time: number, keepDays: number): Promise<void> {
    if (!stores) throw new Error('There is no store.');
    const onFailure = (error: unknown) => {
      throw error;
    };
    const { database } = stores.one;
    const deps = { database, keepDays, now: () => time, onDone: () => undefined, onFailure };
    await new LogRetention(deps).run();
  }

  test('shows requests again from the next day on if a clock was a year ahead', async () => {
    stores = await openTwice(empty);
    const { one: store } = stores;
    const customer = await addCustomer(store);
    const { tenantId } = customer;
    const period = { from: 0, until: now + 90 * dayMs };
    const all = { tenantId, ...period, status: null, model: null, keyId: null };
    const shown = async () => {
      const { rows, total } = await store.logs.page(all, 9, 0);
      expect(total).toBe(rows.length);
      return rows.map(({ createdAt }) => createdAt);
    };
    await book(store, [makeRecord({ ...customer, createdAt: now })]);
    await removeOld(now + 365 * dayMs, 30);
    expect(await shown()).toEqual([]);

    await removeOld(now, 30);
    await book(store, [makeRecord({ ...customer, createdAt: now + dayMs })]);
    expect(await shown()).toEqual([now + dayMs]);
    expect(await discrepancies(store)).toEqual([]);
    // As usual, a longer retention restores nothing, and a later day removes old requests.
    await removeOld(now + dayMs, 300);
    expect(await shown()).toEqual([now + dayMs]);
    await removeOld(now + 40 * dayMs, 30);
    expect(await shown()).toEqual([]);
  });

  test('deletes old entries of the audit log, with a retention of its own', async () => {
    stores = await openTwice(empty);
    const { one: store } = stores;
    const entry = { actor: 'admin', origin: 'http', action: 'a.b', target: 'x' } as const;
    const ages = [0, 9, 10, 11, 400].map((days) => ({ ...entry, created_at: now - days * dayMs }));
    await store.database.write.insertInto('audit_log').values(ages).execute();
    const deps = { keepDays: null, auditKeepDays: 10, now: () => now };
    const onFailure = (error: unknown) => expect.unreachable(String(error));
    const callbacks = { onDone: () => undefined, onFailure };
    await new LogRetention({ database: store.database, ...deps, ...callbacks }).run();
    const { read } = store.database;
    const left = await read.selectFrom('audit_log').select('created_at').orderBy('id').execute();
    expect(left.map(({ created_at }) => (now - created_at) / dayMs)).toEqual([0, 9, 10]);
  });

  test('deletes the hourly sums of old days and keeps their daily sums', async () => {
    stores = await openTwice(empty);
    const { one: store } = stores;
    const customer = await addCustomer(store);
    const hourMs = 3_600_000;
    for (const age of [90 * dayMs, 90 * dayMs - hourMs, 31 * dayMs, 30 * dayMs]) {
      const createdAt = now - age;
      await book(store, [makeRecord({ ...customer, createdAt })], createdAt);
    }
    const days = { first: 0, last: 30_000 };
    const filter = { tenantId: customer.tenantId, days, keyId: null };
    const buckets = async (granularity: 'day' | 'hour') =>
      (await store.analytics.series(filter, granularity)).map(({ bucket }) => bucket);
    const before = await buckets('day');
    expect([before.length, (await buckets('hour')).length]).toEqual([3, 4]);
    await removeOld(now, 30);
    expect(await buckets('hour')).toEqual([(now - 30 * dayMs) / hourMs]);
    expect(await buckets('day')).toEqual(before);
  });

  test("deletes nothing while the machine's clock is not set", async () => {
    stores = await openTwice(empty);
    const { one: store } = stores;
    const customer = await addCustomer(store);
    await book(store, [makeRecord({ ...customer, createdAt: now - 90 * dayMs })], now - 90 * dayMs);
    await removeOld(now, 30);
    const day = await logsSince(store.database);
    expect(new Date(day).toISOString()).toBe('2028-04-10T00:00:00.000Z');

    // A clock without a battery starts in 1970 until the network sets it.
    await removeOld(3 * 60_000, 30);
    expect(await logsSince(store.database)).toBe(day);
    expect(await discrepancies(store)).toEqual([]);
  });
});
