import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { GroupBy } from '../../src/contract/customer.ts';
import { noUsage } from '../../src/core/usage.ts';
import { noCharges } from '../../src/money/price/fee-kinds.ts';
import { groupObjects } from '../../src/records/analytics.ts';
import { dayOf } from '../../src/records/period.ts';
import { statementMonths } from '../../src/records/statement.ts';
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
      (await other.usageGroups.sumsBy({ tenantId, days, keyId: key }, groupBy)).map(
        ({ value, day, requests, modelCharge, durationMs }) =>
          [value, day - days.first, requests, modelCharge, durationMs] as const,
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
    const dailySums = await one.analytics.days(filter);
    const groups = groupObjects(dailySums, await one.usageGroups.sumsBy(filter, 'model'));
    expect(groups.map(({ value }) => value)).toEqual([...models.slice(3).reverse(), null]);
    const rest = groups.at(-1)?.summary;
    expect([rest?.total_requests, rest?.total_spend, rest?.total_tokens]).toEqual([3, 303, 33]);
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
