import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { sql } from 'kysely';
import type { GroupBy } from '../../src/contract/customer.ts';
import { noUsage } from '../../src/core/usage.ts';
import { noCharges } from '../../src/money/price/fee-kinds.ts';
import { groupObjects, readSeries } from '../../src/records/analytics.ts';
import { dayOf } from '../../src/records/period.ts';
import { statementMonths } from '../../src/records/statement.ts';
import { hourlyUsage } from '../../src/store/migrations/0010-hourly-usage.ts';
import { sqlTypes } from '../../src/store/migrations/migration.ts';
import { addCustomer, addKey, book, grant, makeRecord } from './bookings.ts';
import { engines, openTwice, type TwoStores } from './engines.ts';

const start = Date.UTC(2028, 1, 28, 12);
const dayMs = 86_400_000;

describe.each(engines)('usage groups and statements on $name', ({ empty }) => {
  let stores: TwoStores;
  beforeAll(async () => {
    stores = await openTwice(empty);
  });
  afterAll(() => stores?.close());

  const days = { first: dayOf(start), last: dayOf(start) + 1 };
  const spent = (tenantId: string, keyId: string, model: string, credits: number, index = start) =>
    makeRecord({
      tenantId,
      keyId,
      requestedModel: model,
      provider: 'acme',
      usage: { ...noUsage, inputTokens: 10, outputTokens: 1 },
      charges: { ...noCharges, modelCharge: credits },
      durationMs: 40,
      createdAt: index,
    });

  test("sorts groups by spending and includes only the tenant's requests", async () => {
    const { one, other } = stores;
    const { tenantId, keyId } = await addCustomer(one);
    const second = await addKey(one, tenantId);
    const otherTenant = await addCustomer(one);
    await book(one, [
      spent(tenantId, keyId, 'a/small', 5),
      spent(tenantId, second, 'a/large', 30),
      spent(tenantId, keyId, 'a/large', 40, start + dayMs),
      spent(tenantId, keyId, 'a/large', 900, start - dayMs),
      spent(otherTenant.tenantId, otherTenant.keyId, 'a/large', 7),
    ]);
    const rowsBy = async (groupBy: GroupBy, key: string | null = null) =>
      (await other.usageGroups.sumsBy({ tenantId, days, keyId: key }, groupBy, 'day')).map(
        ({ value, bucket, requests, modelCharge, durationMs }) =>
          [value, bucket - days.first, requests, modelCharge, durationMs] as const,
      );
    expect(await rowsBy('model')).toEqual([
      ['a/large', 0, 1, 30, 40],
      ['a/large', 1, 1, 40, 40],
      ['a/small', 0, 1, 5, 40],
    ]);
    expect(await rowsBy('api_key_id')).toEqual([
      [keyId, 0, 1, 5, 40],
      [keyId, 1, 1, 40, 40],
      [second, 0, 1, 30, 40],
    ]);
    expect(await rowsBy('provider', second)).toEqual([['acme', 0, 1, 30, 40]]);
    expect(await rowsBy('traffic_mode')).toEqual([
      ['shared', 0, 2, 35, 80],
      ['shared', 1, 1, 40, 40],
    ]);
  });

  test('combines all values except the 10 largest into one group', async () => {
    const { one } = stores;
    const { tenantId, keyId } = await addCustomer(one);
    const models = Array.from({ length: 13 }, (_, i) => `m/${String(i).padStart(2, '0')}`);
    // The models cost 100 to 112 credits. The 3 cheapest, 303 together, aren't in the top 10.
    await book(
      one,
      models.map((model, i) => spent(tenantId, keyId, model, 100 + i)),
    );
    const filter = { tenantId, days, keyId: null };
    const series = await readSeries(one.analytics, filter, 'day');
    const groups = groupObjects(series, await one.usageGroups.sumsBy(filter, 'model', 'day'));
    expect(groups.map(({ value }) => value)).toEqual([...models.slice(3).reverse(), null]);
    const rest = groups.at(-1)?.summary;
    expect([rest?.total_requests, rest?.total_spend, rest?.total_tokens]).toEqual([3, 303, 33]);
  });

  describe('the hours of a day', () => {
    const hour = 3_600_000;
    const noon = start / hour;
    const oneDay = { first: dayOf(start), last: dayOf(start) };

    async function bookHours() {
      const { tenantId, keyId } = await addCustomer(stores.one);
      // The last hour before the day, its first and last hour, and the first hour after it.
      await book(stores.one, [
        spent(tenantId, keyId, 'a/small', 1, start - 12 * hour - 1),
        spent(tenantId, keyId, 'a/small', 2, start - 12 * hour),
        spent(tenantId, keyId, 'a/large', 40, start),
        spent(tenantId, keyId, 'a/large', 50, start + hour - 1),
        spent(tenantId, keyId, 'a/small', 8, start + 12 * hour - 1),
        spent(tenantId, keyId, 'a/small', 16, start + 12 * hour),
      ]);
      return { tenantId, days: oneDay, keyId: null };
    }

    test('have the sums of the requests that arrived in each', async () => {
      const filter = await bookHours();
      const series = await readSeries(stores.other.analytics, filter, 'hour');
      expect(series.granularity).toBe('hour');
      const sums = series.active.map(({ bucket, requests, modelCharge }) => [
        bucket - noon,
        requests,
        modelCharge,
      ]);
      expect(sums).toEqual([
        [-12, 1, 2],
        [0, 2, 90],
        [11, 1, 8],
      ]);
      const groups = await stores.other.usageGroups.sumsBy(filter, 'model', 'hour');
      expect(
        groups.map(({ value, bucket, modelCharge }) => [value, bucket - noon, modelCharge]),
      ).toEqual([
        ['a/large', 0, 90],
        ['a/small', -12, 2],
        ['a/small', 11, 8],
      ]);
    });

    test('are not used for a day with a request that has no hourly sum', async () => {
      const filter = await bookHours();
      const { write } = stores.one.database;
      await write
        .deleteFrom('usage_hourly')
        .where('tenant_id', '=', filter.tenantId)
        .where('hour', '=', noon + 11)
        .execute();
      const series = await readSeries(stores.other.analytics, filter, 'hour');
      const sums = series.active.map(({ bucket, requests }) => [bucket, requests]);
      expect([series.granularity, sums]).toEqual(['day', [[oneDay.first, 4]]]);
    });
  });

  test('fills in the hours of the last week when the table is created', async () => {
    const { one } = stores;
    const { tenantId, keyId } = await addCustomer(one);
    const now = Date.now();
    const [recent, old] = [now - dayMs, now - 20 * dayMs];
    await book(one, [
      spent(tenantId, keyId, 'a/small', 3, recent),
      { ...spent(tenantId, keyId, 'a/large', 7, recent), provider: null, status: 'error' },
      spent(tenantId, keyId, 'a/small', 9, old),
    ]);
    const hoursAround = (time: number) =>
      readSeries(
        one.analytics,
        { tenantId, days: { first: dayOf(time), last: dayOf(time) }, keyId: null },
        'hour',
      );
    const booked = await hoursAround(recent);
    const { engine, write } = one.database;
    await write.schema.dropTable('usage_hourly').execute();
    for (const statement of hourlyUsage.statements(sqlTypes[engine])) {
      await sql.raw(statement).execute(write);
    }
    expect(await hoursAround(recent)).toEqual(booked);
    expect(booked.granularity).toBe('hour');
    expect((await hoursAround(old)).granularity).toBe('day');
  });

  test('lists months whose changes add up from the opening to the closing balance', async () => {
    const { one, other } = stores;
    const { tenantId, keyId } = await addCustomer(one, 0);
    const [january, february] = [Date.UTC(2028, 0, 10), Date.UTC(2028, 1, 10)];
    await grant(one, tenantId, 1_000, january);
    await book(one, [spent(tenantId, keyId, 'a/b', 120, january)]);
    await grant(one, tenantId, 500, february);
    await grant(one, tenantId, -80, february + 1_000);
    await book(one, [
      spent(tenantId, keyId, 'a/b', 30, february),
      spent(tenantId, keyId, 'a/b', 7, february),
    ]);
    const reads = { statements: other.statements, months: other.statementMonths };
    const months = await statementMonths(reads, tenantId, 3, Date.UTC(2028, 2, 5));
    type Amounts = [opening: number, granted: number, corrected: number, charged: number];
    const row = (month: string, closing: number, ...amounts: Amounts) => ({
      month,
      opening_balance: amounts[0],
      granted: amounts[1],
      corrected: amounts[2],
      charged: amounts[3],
      closing_balance: closing,
    });
    expect(months).toEqual([
      row('2028-03', 1_263, 1_263, 0, 0, 0),
      row('2028-02', 1_263, 880, 500, -80, 37),
      row('2028-01', 880, 0, 1_000, 0, 120),
    ]);
  });

  test('lists empty months for a tenant without a wallet', async () => {
    const { one } = stores;
    const { tenantId } = await addCustomer(one, 0);
    const reads = { statements: one.statements, months: one.statementMonths };
    const [month] = await statementMonths(reads, tenantId, 1, start);
    expect(month).toEqual({
      month: '2028-02',
      opening_balance: 0,
      granted: 0,
      corrected: 0,
      charged: 0,
      closing_balance: 0,
    });
  });
});
