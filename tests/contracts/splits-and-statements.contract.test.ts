import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Split } from '../../src/contract/customer.ts';
import { noUsage } from '../../src/core/usage.ts';
import { noCharges } from '../../src/money/price/fee-kinds.ts';
import { groupObjects } from '../../src/records/analytics.ts';
import { dayOf } from '../../src/records/period.ts';
import { statementMonths } from '../../src/records/statement.ts';
import { addCustomer, addKey, book, grant, makeRecord } from './bookings.ts';
import { engines, openTwice, type TwoStores } from './engines.ts';

const start = Date.UTC(2028, 1, 28, 12);
const dayMs = 86_400_000;

describe.each(engines)('reads of the dashboard on $name', ({ empty }) => {
  let stores: TwoStores;
  beforeAll(async () => {
    stores = await openTwice(empty);
  });
  afterAll(() => stores?.close());

  const days = { first: dayOf(start), last: dayOf(start) + 1 };
  const spent = (tenantId: string, keyId: string, model: string, credits: number, at = start) =>
    makeRecord({
      tenantId,
      keyId,
      requestedModel: model,
      provider: 'acme',
      usage: { ...noUsage, inputTokens: 10, outputTokens: 1 },
      charges: { ...noCharges, modelCharge: credits },
      durationMs: 40,
      createdAt: at,
    });

  test('a split has the largest spenders first, and nothing of other tenants', async () => {
    const { one, other } = stores;
    const { tenantId, keyId } = await addCustomer(one);
    const second = await addKey(one, tenantId);
    const stranger = await addCustomer(one);
    await book(one, [
      spent(tenantId, keyId, 'a/small', 5),
      spent(tenantId, second, 'a/large', 30),
      spent(tenantId, keyId, 'a/large', 40, start + dayMs),
      spent(tenantId, keyId, 'a/large', 900, start - dayMs),
      spent(stranger.tenantId, stranger.keyId, 'a/large', 7),
    ]);
    const parts = async (split: Split, key: string | null = null) =>
      (await other.splits.splitSums({ tenantId, days, keyId: key }, split)).map(
        ({ value, day, requests, modelCharge, durationMs }) =>
          [value, day - days.first, requests, modelCharge, durationMs] as const,
      );
    expect(await parts('model')).toEqual([
      ['a/large', 0, 1, 30, 40],
      ['a/large', 1, 1, 40, 40],
      ['a/small', 0, 1, 5, 40],
    ]);
    expect(await parts('api_key_id')).toEqual([
      [keyId, 0, 1, 5, 40],
      [keyId, 1, 1, 40, 40],
      [second, 0, 1, 30, 40],
    ]);
    expect(await parts('provider', second)).toEqual([['acme', 0, 1, 30, 40]]);
    expect(await parts('traffic_mode')).toEqual([
      ['shared', 0, 2, 35, 80],
      ['shared', 1, 1, 40, 40],
    ]);
  });

  test('a split of many shows ten, and the rest as one', async () => {
    const { one } = stores;
    const { tenantId, keyId } = await addCustomer(one);
    const models = Array.from({ length: 13 }, (_, at) => `m/${String(at).padStart(2, '0')}`);
    // 100, 101 … 112 credits: the three cheapest, 303 together, are not among the ten.
    await book(
      one,
      models.map((model, at) => spent(tenantId, keyId, model, 100 + at)),
    );
    const filter = { tenantId, days, keyId: null };
    const whole = await one.analytics.days(filter);
    const groups = groupObjects(whole, await one.splits.splitSums(filter, 'model'));
    expect(groups.map(({ value }) => value)).toEqual([...models.slice(3).reverse(), null]);
    const rest = groups.at(-1)?.summary;
    expect([rest?.total_requests, rest?.total_spend, rest?.total_tokens]).toEqual([3, 303, 33]);
  });

  test('months add up: opening, grants, corrections and charges make the closing', async () => {
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

  test('a tenant without a wallet has months without anything in them', async () => {
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
