import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { promptTokens } from '../../src/core/usage.ts';
import { noCharges, totalCharge } from '../../src/money/price/fee-kinds.ts';
import type { LogFilter, LogRow } from '../../src/records/customer-log.ts';
import { allTime, dayOf } from '../../src/records/period.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import type { Store } from '../../src/store/open.ts';
import { addCustomer, addKey, book, dayMs, discrepancies, grant, makeRecord } from './bookings.ts';
import { engines, openTwice, type TwoStores } from './engines.ts';

/** Returns a seeded random generator, so that failures are reproducible. */
function seededRandom(seed: number): (max: number) => number {
  let state = seed;
  return (max) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * max);
  };
}

const models = ['acme/chat', 'acme/large', 'Zeta/Über "best"'];
const tokenCounts = [
  [0, 0],
  [2, 1],
  [7, 3],
] as const;

/** Creates records around the leap day of 2028, some in the same millisecond or at a day's end. */
function someRecords(tenantId: string, keyIds: readonly string[]): RequestRecord[] {
  const random = seededRandom(42);
  const start = Date.UTC(2028, 1, 26);
  return Array.from({ length: 300 }, (_, i) => {
    const day = start + random(8) * dayMs;
    const within = [0, dayMs - 1, random(dayMs), random(40) * 3_600_000][random(4)] ?? 0;
    const isError = random(5) === 0;
    const [input, output] = tokenCounts[random(3)] ?? [1, 1];
    return makeRecord({
      tenantId,
      keyId: keyIds[random(keyIds.length)] ?? '',
      requestedModel: models[random(3)] ?? '',
      provider: random(4) === 0 ? null : 'acme',
      status: isError ? 'error' : 'success',
      error: isError ? 'upstream_error' : null,
      trafficMode: random(3) === 0 ? 'byok' : 'shared',
      usage: { ...makeRecord().usage, inputTokens: input, outputTokens: output },
      charges: isError
        ? noCharges
        : { ...noCharges, modelCharge: random(50), managedToolFee: random(3) },
      searches: random(2),
      durationMs: random(1000),
      createdAt: day + (within % dayMs),
      note: i % 7 === 0 ? 'a note' : null,
      endUser: i % 5 === 0 ? `user ${i}` : null,
    });
  });
}

/** Returns the log row of a record. */
function toLogRow({ record }: { record: RequestRecord }): LogRow {
  const { requestId, keyId, requestedModel, provider, status, error, trafficMode } = record;
  const { endUser, usage, charges, skills, note, durationMs, createdAt } = record;
  const call = { requestId, keyId, requestedModel, provider, status, error, trafficMode };
  return { ...call, endUser, usage, charges, skills, note, durationMs, createdAt };
}

function newestFirst(rows: readonly { id: number; record: RequestRecord }[]) {
  return rows.toSorted((a, b) => b.record.createdAt - a.record.createdAt || b.id - a.id);
}

describe.each([...engines])('logs and analytics on $name', ({ empty }) => {
  let stores: TwoStores;
  let store: Store;
  let tenantId: string;
  let keyIds: string[];
  let rows: { id: number; record: RequestRecord }[];

  beforeAll(async () => {
    stores = await openTwice(empty);
    store = stores.one;
    const customer = await addCustomer(store);
    const other = await addCustomer(store);
    tenantId = customer.tenantId;
    keyIds = [customer.keyId, await addKey(store, tenantId)];
    const records = someRecords(tenantId, keyIds);
    for (let i = 0; i < records.length; i += 30) await book(store, records.slice(i, i + 30));
    await book(store, someRecords(other.tenantId, [other.keyId]).slice(0, 50));
    const stored = await store.database.read
      .selectFrom('request_log')
      .select(['id', 'request_id'])
      .where('tenant_id', '=', tenantId)
      .execute();
    const ids = new Map(stored.map((row) => [Buffer.from(row.request_id).toString('hex'), row.id]));
    rows = newestFirst(
      records.map((record) => ({
        id: ids.get(record.requestId.replaceAll('-', '')) ?? 0,
        record,
      })),
    );
  }, 120_000);

  afterAll(() => stores.close());

  const filter = (change: Partial<LogFilter> = {}): LogFilter => ({
    tenantId,
    ...allTime,
    status: null,
    model: null,
    keyId: null,
    ...change,
  });

  const matching = (logFilter: LogFilter) =>
    rows.filter(
      ({ record }) =>
        record.createdAt >= logFilter.from &&
        record.createdAt < logFilter.until &&
        (logFilter.status === null || record.status === logFilter.status) &&
        (logFilter.model === null || record.requestedModel === logFilter.model) &&
        (logFilter.keyId === null || record.keyId === logFilter.keyId),
    );

  const leapDay = Date.UTC(2028, 1, 29);
  const filters: [string, () => LogFilter][] = [
    ['all requests', () => filter()],
    ['failures', () => filter({ status: 'error' })],
    ['successes of one model', () => filter({ status: 'success', model: models[2] ?? '' })],
    ['one key', () => filter({ keyId: keyIds[1] ?? '' })],
    ['the leap day', () => filter({ from: leapDay, until: leapDay + dayMs })],
    [
      'the last millisecond of February',
      () => filter({ from: leapDay + dayMs - 1, until: leapDay + dayMs }),
    ],
    ['all times after an instant', () => filter({ from: leapDay + 5_000_000 })],
    [
      'a range within one day',
      () => filter({ from: leapDay + 9_000_000, until: leapDay + 40_000_000, status: 'success' }),
    ],
    [
      'a range across two days',
      () =>
        filter({ from: leapDay - 7_000_000, until: leapDay + dayMs + 1, keyId: keyIds[0] ?? '' }),
    ],
    ['a model without requests', () => filter({ model: 'acme/none' })],
    ['a time before all requests', () => filter({ until: Date.UTC(2027, 0) })],
  ];

  test.each(filters)(
    'LogReads.page returns the rows of %s for each page size',
    async (_, filterOf) => {
      const expected = matching(filterOf());
      const offsets = [0, 1, 29, 99, Math.floor(expected.length / 2), expected.length - 3, 500];
      for (const offset of offsets.filter((candidate) => candidate >= 0)) {
        for (const limit of [1, 20, 100]) {
          const page = await store.logs.page(filterOf(), limit, offset);
          expect(page.total).toBe(expected.length);
          expect(page.rows).toEqual(expected.slice(offset, offset + limit).map(toLogRow));
        }
      }
    },
  );

  test.each(filters)('LogReads.all returns all rows of %s', async (_, filterOf) => {
    const pages = await Array.fromAsync(store.logs.all(filterOf()));
    expect(pages.flat()).toEqual(matching(filterOf()).map(toLogRow));
  });

  test('LogReads.all omits requests that are booked after it has started', async () => {
    const { tenantId: own, keyId } = await addCustomer(store);
    const newRecord = () => makeRecord({ tenantId: own, keyId });
    await book(store, [newRecord(), newRecord()]);
    const pages = store.logs.all(filter({ tenantId: own }))[Symbol.asyncIterator]();
    const first = await pages.next();
    await book(store, [newRecord()]);
    expect(first.value).toHaveLength(2);
    expect(await pages.next()).toEqual({ done: true, value: undefined });
    expect((await store.logs.page(filter({ tenantId: own }), 10, 0)).total).toBe(3);
  });

  test('LogReads.all returns every row once if pages end within a millisecond', async () => {
    const { tenantId: own, keyId } = await addCustomer(store);
    const time = Date.UTC(2028, 4, 1);
    const records = Array.from({ length: 1_200 }, (_, n) =>
      makeRecord({ tenantId: own, keyId, createdAt: time + (n % 2) }),
    );
    for (let from = 0; from < 1_200; from += 400) {
      await book(store, records.slice(from, from + 400));
    }
    const exported = (await Array.fromAsync(store.logs.all(filter({ tenantId: own })))).flat();
    const booked = newestFirst(records.map((record, id) => ({ id, record })));
    expect(exported.map((row) => row.requestId)).toEqual(booked.map((row) => row.record.requestId));
  });

  test('LogReads.ownsKey recognizes the keys of a tenant, including deleted ones', async () => {
    const { tenantId: own, keyId } = await addCustomer(store);
    expect(await store.logs.ownsKey(own, keyId)).toBe(true);
    expect(await store.logs.ownsKey(tenantId, keyId)).toBe(false);
    await store.directory.deleteKey(own, keyId, 1);
    expect(await store.logs.ownsKey(own, keyId)).toBe(true);
    expect(await store.logs.ownsKey(own, 'key_none')).toBe(false);
  });

  const byDay = { first: dayOf(leapDay) - 1, last: dayOf(leapDay) + 1 };

  test.each([
    ['all keys', null],
    ['one key', 0],
  ] as const)('AnalyticsReads.series returns the sums of the log for %s', async (_, keyIndex) => {
    const keyId = keyIndex === null ? null : (keyIds[keyIndex] ?? '');
    const days = await store.analytics.series({ tenantId, days: byDay, keyId }, 'day');
    expect(days.map(({ bucket }) => bucket)).toEqual([byDay.first, byDay.first + 1, byDay.last]);
    for (const sums of days) {
      const records = matching(
        filter({ from: sums.bucket * dayMs, until: (sums.bucket + 1) * dayMs, keyId }),
      ).map(({ record }) => record);
      const sum = (amountOf: (record: RequestRecord) => number) =>
        records.reduce((total, record) => total + amountOf(record), 0);
      expect(sums).toEqual({
        bucket: sums.bucket,
        requests: records.length,
        failed: sum(({ status }) => (status === 'error' ? 1 : 0)),
        promptTokens: sum(({ usage }) => promptTokens(usage)),
        completionTokens: sum(({ usage }) => usage.outputTokens),
        modelCharge: sum(({ charges }) => charges.modelCharge),
        byokPlatformFee: 0,
        managedToolFee: sum(({ charges }) => charges.managedToolFee),
        agentRuntimeFee: 0,
        searches: sum(({ searches }) => searches),
        durationMs: sum(({ durationMs }) => durationMs),
      });
    }
  });

  test('AnalyticsReads.details returns every row across pages', async () => {
    const { tenantId: own, keyId } = await addCustomer(store);
    const records = Array.from({ length: 1_100 }, (_, n) =>
      makeRecord({ tenantId: own, keyId, requestedModel: `acme/chat-${n}` }),
    );
    await book(store, records);
    const days = { first: 0, last: 30_000 };
    const pages = await Array.fromAsync(
      store.analytics.details({ tenantId: own, days, keyId: null }),
    );
    expect(pages.length).toBeGreaterThan(1);
    expect(new Set(pages.flat().map(({ model }) => model)).size).toBe(1_100);
    expect(pages.flat()).toHaveLength(1_100);
  });

  test('AnalyticsReads.details sorts rows by bytes across pages', async () => {
    const { tenantId: own, keyId } = await addCustomer(store);
    const models = ['a', 'B', 'a-b', 'ab', 'É', 'z', '_', '😀'].flatMap((start) =>
      Array.from({ length: 70 }, (_, n) => `${start}/${n % 2 ? 'X' : 'x'}${n}`),
    );
    await book(
      store,
      models.map((requestedModel) => makeRecord({ tenantId: own, keyId, requestedModel })),
    );
    const days = { first: 0, last: 30_000 };
    const filter = { tenantId: own, days, keyId: null };
    const pages = await Array.fromAsync(store.analytics.details(filter));
    expect(pages.map(({ length }) => length)).toEqual([500, 60]);
    const byBytes = models.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect(pages.flat().map(({ model }) => model)).toEqual(byBytes);
    const groups = await store.usageGroups.sumsBy(filter, 'model', 'day');
    expect(groups.map(({ value }) => value)).toEqual(byBytes.slice(0, groups.length));
  });

  test('AnalyticsReads.details returns rows that add up to the days', async () => {
    const all = { tenantId, days: byDay, keyId: null };
    const rows = (await Array.fromAsync(store.analytics.details(all))).flat();
    const names = rows.map(({ day, keyId, model, provider, trafficMode }) =>
      JSON.stringify([day, keyId, model, provider, trafficMode]),
    );
    expect(new Set(names).size).toBe(rows.length);
    for (const { bucket, requests, modelCharge } of await store.analytics.series(all, 'day')) {
      const ofDay = rows.filter((row) => row.day === bucket);
      expect(ofDay.reduce((sum, row) => sum + row.requests, 0)).toBe(requests);
      expect(ofDay.reduce((sum, row) => sum + row.modelCharge, 0)).toBe(modelCharge);
    }
  });

  test('KeySpending.spent sums the charges of the UTC day, week, and month', async () => {
    const own = await addCustomer(store, 2_000_000);
    const other = await addKey(store, own.tenantId);
    const spend = (createdAt: number, modelCharge: number, keyId = own.keyId) =>
      makeRecord({ ...own, keyId, createdAt, charges: { ...noCharges, modelCharge } });
    // A Wednesday whose week started in the previous month.
    const now = Date.UTC(2028, 1, 2, 12);
    await book(store, [
      spend(Date.UTC(2028, 1, 2), 1),
      spend(Date.UTC(2028, 1, 1, 23, 59), 10),
      spend(Date.UTC(2028, 0, 31), 100),
      spend(Date.UTC(2028, 0, 30, 23, 59), 1_000),
      // From a process whose clock was ahead. These charges count once their day has started.
      spend(Date.UTC(2028, 1, 3), 10_000),
      spend(Date.UTC(2028, 1, 7), 100_000),
      spend(Date.UTC(2028, 2, 1), 1_000_000),
      spend(Date.UTC(2028, 1, 2), 5, other),
    ]);
    const spent = await store.keySpending.spent(own.tenantId, [own.keyId, other, 'key_x'], now);
    const periods = { daily: 1, weekly: 10_111, monthly: 110_011 };
    expect(spent.get(own.keyId)).toEqual({ ...periods, total: 1_111_111 });
    expect(spent.get(other)?.total).toBe(5);
    expect(spent.has('key_x')).toBe(false);
    const otherTenant = await store.keySpending.spent(tenantId, [own.keyId], now);
    expect(otherTenant.size).toBe(0);
  });

  test('WalletReads.totals distinguishes grants, corrections, and charges', async () => {
    const own = await addCustomer(store, 500);
    await grant(store, own.tenantId, 300);
    await grant(store, own.tenantId, -20);
    await book(store, [makeRecord({ ...own }), makeRecord({ ...own, status: 'error' })]);
    expect(await store.walletTotals.totals(own.tenantId)).toEqual({
      balance: 766,
      held: 0,
      granted: 800,
      adjusted: -20,
      spent: 14,
      requests: 2,
    });
    const emptyWallet = { balance: 0, held: 0, granted: 0, adjusted: 0, spent: 0, requests: 0 };
    expect(await store.walletTotals.totals('ten_none')).toEqual(emptyWallet);
  });

  test('LogReads.page finds text whose invalid characters were replaced', async () => {
    const own = await addCustomer(store);
    const names = ['a\0b', 'a\uFFFDb', 'a\uD800b', 'a\nb'];
    await book(
      store,
      names.map((name) => makeRecord({ ...own, requestedModel: name, finishReason: name })),
    );
    const logFilter = filter({ tenantId: own.tenantId, model: 'a\uFFFDb' });
    expect((await store.logs.page(logFilter, 10, 0)).total).toBe(3);
  });

  test('verifyLedger reports nothing after all tests', async () => {
    expect(await discrepancies(store)).toEqual([]);
    const { spent } = await store.walletTotals.totals(tenantId);
    expect(spent).toBe(rows.reduce((sum, { record }) => sum + totalCharge(record.charges), 0));
  });
});
