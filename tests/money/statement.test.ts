import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { noCharges } from '../../src/money/price/fee-kinds.ts';
import { readMonth } from '../../src/records/period.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import { statementCsv, statementMonths } from '../../src/records/statement.ts';
import type { Store } from '../../src/store/open.ts';
import { LogRetention } from '../../src/store/retention.ts';
import {
  addCustomer,
  book,
  dayMs,
  discrepancies,
  grant,
  makeRecord,
} from '../contracts/bookings.ts';
import { engines, openTwice, type TwoStores } from '../contracts/engines.ts';
import { readTable } from '../support/csv.ts';

type Rows = Record<string, string>[];

function balanceOf(row: Record<string, string> | undefined): number {
  return Number(row?.balance ?? Number.NaN);
}

/** Returns the opening and closing balance and checks that the rows between add up. */
function checkedBalances(rows: Rows): { opening: number; closing: number } {
  expect(rows[0]?.type).toBe('opening_balance');
  expect(rows.at(-1)?.type).toBe('closing_balance');
  let balance = balanceOf(rows[0]);
  for (const row of rows.slice(1)) {
    balance += Number(row.amount);
    expect(balanceOf(row)).toBe(balance);
  }
  return { opening: balanceOf(rows[0]), closing: balance };
}

describe.each([...engines])('statement on $name', ({ empty }) => {
  let stores: TwoStores;
  let store: Store;

  beforeAll(async () => {
    stores = await openTwice(empty);
    store = stores.one;
  }, 120_000);

  afterAll(() => stores.close());

  const now = Date.UTC(2028, 3, 15);

  async function statement(tenantId: string, month: string): Promise<Rows> {
    const pieces = statementCsv(store.statements, tenantId, readMonth(month, now), now);
    return readTable((await Array.fromAsync(pieces)).join(''));
  }

  const charged = (own: Partial<RequestRecord>, modelCharge: number, createdAt: number) =>
    makeRecord({ ...own, createdAt, charges: { ...noCharges, modelCharge } });

  test('lists grants, corrections, and the requests of each entry', async () => {
    const own = await addCustomer(store, 0);
    await grant(store, own.tenantId, 1_000, Date.UTC(2028, 1, 1));
    const at = Date.UTC(2028, 1, 10);
    const [one, two] = [charged(own, 30, at), charged(own, 12, at + 1)];
    const free = { ...charged(own, 0, at + 2), status: 'error' as const };
    await book(store, [one, two, free], at + 5_000);
    await grant(store, own.tenantId, -8, Date.UTC(2028, 1, 29));
    const rows = await statement(own.tenantId, '2028-02');
    expect(checkedBalances(rows)).toEqual({ opening: 0, closing: 950 });
    expect(rows.map(({ type }) => type)).toEqual([
      'opening_balance',
      'grant',
      'charge',
      'charge',
      'correction',
      'closing_balance',
    ]);
    expect(rows[2]).toEqual({
      time: '2028-02-10T00:00:05.000Z',
      entry_id: '202802000000002',
      type: 'charge',
      request_id: one.requestId,
      api_key_id: own.keyId,
      model: 'acme/chat',
      provider: 'acme',
      traffic_mode: 'shared',
      prompt_tokens: '10',
      completion_tokens: '5',
      model_charge: '30',
      byok_platform_fee: '0',
      managed_tool_fee: '0',
      agent_runtime_fee: '0',
      amount: '-30',
      balance: '970',
    });
    expect(rows[3]?.request_id).toBe(two.requestId);
    expect(rows.map((row) => row.entry_id)).toEqual([
      '',
      '202802000000001',
      '202802000000002',
      '202802000000002',
      '202802000000003',
      '',
    ]);
    expect(rows[0]?.time).toBe('2028-02-01T00:00:00.000Z');
    expect(rows.at(-1)?.time).toBe('2028-02-29T23:59:59.999Z');
  });

  test('lists a charge in the month in which it was booked', async () => {
    const own = await addCustomer(store, 0);
    await grant(store, own.tenantId, 100, Date.UTC(2028, 0, 31, 23, 59, 59));
    const arrived = Date.UTC(2028, 1, 29, 23, 59, 59, 900);
    await book(store, [charged(own, 3, arrived)], Date.UTC(2028, 2, 1) - 1);
    await book(store, [charged(own, 5, arrived + 1)], Date.UTC(2028, 2, 1));
    const months = ['2027-12', '2028-01', '2028-02', '2028-03', '2028-04'];
    const balances = [];
    for (const month of months)
      balances.push(checkedBalances(await statement(own.tenantId, month)));
    expect(balances).toEqual([
      { opening: 0, closing: 0 },
      { opening: 0, closing: 100 },
      { opening: 100, closing: 97 },
      { opening: 97, closing: 92 },
      { opening: 92, closing: 92 },
    ]);
    expect((await statement(own.tenantId, '2028-04')).at(-1)?.time).toBe(
      '2028-04-15T00:00:00.000Z',
    );
  });

  test('loses no entry and lists none twice when clocks disagree at midnight', async () => {
    const own = await addCustomer(store, 0);
    const midnight = Date.UTC(2028, 2, 1);
    await grant(store, own.tenantId, 1_000, midnight - dayMs);
    const offsets = [-40, 3, -20, 10, -5, -1, 0, 25, -2, 30];
    for (const [index, offset] of offsets.entries()) {
      await book(store, [charged(own, index + 1, midnight - dayMs)], midnight + offset);
    }
    const february = await statement(own.tenantId, '2028-02');
    const march = await statement(own.tenantId, '2028-03');
    expect(checkedBalances(march)).toEqual({
      opening: checkedBalances(february).closing,
      closing: 945,
    });
    const entries = [...february, ...march].map((row) => row.entry_id ?? '').filter((id) => id);
    expect(new Set(entries).size).toBe(entries.length);
    expect(entries).toHaveLength(offsets.length + 1);
    // Later bookings don't change a past month.
    for (const offset of [1_000, 2_000]) {
      await book(store, [charged(own, 1, midnight)], midnight + offset);
    }
    expect(await statement(own.tenantId, '2028-02')).toEqual(february);
  });

  test('ends with the current balance, even if a clock was weeks ahead', async () => {
    const own = await addCustomer(store, 0);
    const { tenantId } = own;
    await grant(store, tenantId, 1_000, now - dayMs);
    const bookedAt = [now - 60_000, now + 40 * dayMs, now + 40 * dayMs, now - 30_000, now - 1];
    for (const [index, time] of bookedAt.entries()) {
      await book(store, [charged(own, index + 1, time)], time);
    }
    const rows = await statement(tenantId, '2028-04');
    expect(checkedBalances(rows)).toEqual({ opening: 0, closing: 985 });
    expect(rows.filter(({ type }) => type === 'charge')).toHaveLength(5);
    const reads = { statements: store.statements, months: store.statementMonths };
    expect(await statementMonths(reads, tenantId, 1, now)).toEqual([
      {
        ...{ month: '2028-04', opening_balance: 0, granted: 1_000, corrected: 0 },
        ...{ charged: 15, closing_balance: 985 },
      },
    ]);
  });

  test('adds up while requests are being booked and over many pages', async () => {
    const own = await addCustomer(store, 1_000_000);
    const at = Date.UTC(2028, 3, 2);
    // Pages have 500 lines, so some pages end in the middle of an entry.
    for (let batch = 0; batch < 10; batch += 1) {
      const records = Array.from({ length: 450 }, (_, n) => charged(own, 1 + (n % 3), at + batch));
      await book(store, records, at + batch);
    }
    const pieces = statementCsv(store.statements, own.tenantId, readMonth('2028-04', now), now);
    let text = '';
    for await (const piece of pieces) {
      text += piece;
      await book(store, [charged(own, 1, at + 100)], at + 100);
    }
    const rows = readTable(text);
    expect(rows).toHaveLength(4_502);
    expect(checkedBalances(rows)).toEqual({ opening: 1_000_000, closing: 991_000 });
    const ids = rows.map((row) => row.request_id ?? '').filter((id) => id);
    expect(new Set(ids).size).toBe(4_500);
  });

  test('is empty for a tenant without a wallet, and contains no data of other tenants', async () => {
    const own = await addCustomer(store, 0);
    const other = await addCustomer(store, 50);
    await book(store, [charged(other, 5, Date.UTC(2028, 2, 2))]);
    expect(await statement('ten_none', '2028-03')).toHaveLength(2);
    expect(checkedBalances(await statement(own.tenantId, '2028-03'))).toEqual({
      opening: 0,
      closing: 0,
    });
    expect(await statement(other.tenantId, '2028-03')).toHaveLength(3);
  });

  test('numbers entries per tenant and month, so that they reveal nothing about other tenants', async () => {
    const [own, other] = [await addCustomer(store, 100), await addCustomer(store, 100)];
    const at = Date.UTC(2028, 2, 5);
    const entryIds = async () =>
      (await statement(own.tenantId, '2028-03')).map(({ entry_id }) => entry_id).filter(Boolean);
    await book(store, [charged(own, 1, at)], at);
    for (let i = 1; i < 20; i += 1) await book(store, [charged(other, 1, at + i)], at + i);
    await book(store, [charged(own, 1, at + 50)], at + 50);
    expect(await entryIds()).toEqual(['202803000000001', '202803000000002']);
  });

  test('keeps the amounts of deleted requests, as one row per entry', async () => {
    const own = await addCustomer(store, 1_000);
    const old = Date.UTC(2028, 0, 10);
    const recent = Date.UTC(2028, 3, 10);
    await book(store, [charged(own, 4, old), charged(own, 6, old + 1)]);
    // One request waited in a journal for months and is booked with the recent ones.
    const late = charged(own, 9, old + 2);
    await book(store, [charged(own, 1, recent), late]);
    const before = await statement(own.tenantId, '2028-04');
    const daysBefore = await daily(own.tenantId);
    const removed: number[] = [];
    const retention = new LogRetention({
      database: store.database,
      keepDays: 30,
      now: () => now,
      onDone: (rows) => removed.push(rows),
      onFailure: (error) => {
        throw error;
      },
    });
    await Promise.all([retention.run(), retention.run()]);
    await retention.stop();
    expect(removed).toHaveLength(1);
    const january = await statement(own.tenantId, '2028-01');
    expect(checkedBalances(january)).toEqual({ opening: 1_000, closing: 990 });
    expect(january.map(({ amount, request_id }) => [amount, request_id])).toEqual([
      ['0', ''],
      ['-10', ''],
      ['0', ''],
    ]);
    expect(await statement(own.tenantId, '2028-04')).toEqual(before);
    expect(await daily(own.tenantId)).toEqual(daysBefore);
    const everything = { from: 0, until: now + dayMs, status: null, model: null, keyId: null };
    const page = await store.logs.page({ tenantId: own.tenantId, ...everything }, 10, 0);
    expect(page.total).toBe(1);
    expect(page.rows.map(({ createdAt }) => createdAt)).toEqual([recent]);
    expect(await discrepancies(store)).toEqual([]);
  });

  const daily = (tenantId: string) =>
    store.analytics.series({ tenantId, days: { first: 0, last: 30_000 }, keyId: null }, 'day');
});
