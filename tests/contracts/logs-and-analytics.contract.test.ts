import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { promptTokens } from '../../src/core/usage.ts';
import { noCharges, totalCharge } from '../../src/money/price/fee-kinds.ts';
import { allTime, dayOf } from '../../src/records/period.ts';
import type { LogFilter, LogRow } from '../../src/records/request-log.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import type { Store } from '../../src/store/open.ts';
import { addCustomer, addKey, book, dayMs, discrepancies, grant, makeRecord } from './bookings.ts';
import { engines, openTwice, type TwoStores } from './engines.ts';

/** Repeatable noise: a test that fails must fail again. */
function dice(seed: number): (sides: number) => number {
  let state = seed;
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * sides);
  };
}

const models = ['acme/chat', 'acme/large', 'Zeta/Über "best"'];
const spans = [
  [0, 0],
  [2, 1],
  [7, 3],
] as const;

/** Around the leap day of 2028, with pairs of the same millisecond and the edges of days. */
function someRecords(tenantId: string, keyIds: readonly string[]): RequestRecord[] {
  const roll = dice(42);
  const start = Date.UTC(2028, 1, 26);
  return Array.from({ length: 300 }, (_, at) => {
    const day = start + roll(8) * dayMs;
    const within = [0, dayMs - 1, roll(dayMs), roll(40) * 3_600_000][roll(4)] ?? 0;
    const isError = roll(5) === 0;
    const [input, output] = spans[roll(3)] ?? [1, 1];
    return makeRecord({
      tenantId,
      keyId: keyIds[roll(keyIds.length)] ?? '',
      requestedModel: models[roll(3)] ?? '',
      provider: roll(4) === 0 ? null : 'acme',
      status: isError ? 'error' : 'success',
      error: isError ? 'upstream_error' : null,
      trafficMode: roll(3) === 0 ? 'byok' : 'shared',
      usage: { ...makeRecord().usage, inputTokens: input, outputTokens: output },
      charges: isError
        ? noCharges
        : { ...noCharges, modelCharge: roll(50), managedToolFee: roll(3) },
      searches: roll(2),
      durationMs: roll(1000),
      createdAt: day + (within % dayMs),
      note: at % 7 === 0 ? 'a note' : null,
      endUser: at % 5 === 0 ? `user ${at}` : null,
    });
  });
}

/** A record as its tenant reads it in the log. */
function shown({ record }: { record: RequestRecord }): LogRow {
  const { requestId, keyId, requestedModel, provider, status, error, trafficMode } = record;
  const { endUser, usage, charges, skills, note, durationMs, createdAt } = record;
  const call = { requestId, keyId, requestedModel, provider, status, error, trafficMode };
  return { ...call, endUser, usage, charges, skills, note, durationMs, createdAt };
}

function newestFirst(rows: readonly { id: number; record: RequestRecord }[]) {
  return rows.toSorted((a, b) => b.record.createdAt - a.record.createdAt || b.id - a.id);
}

describe.each([...engines])('reads on $name', ({ empty }) => {
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
    for (let at = 0; at < records.length; at += 30) await book(store, records.slice(at, at + 30));
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

  const matching = (wanted: LogFilter) =>
    rows.filter(
      ({ record }) =>
        record.createdAt >= wanted.from &&
        record.createdAt < wanted.until &&
        (wanted.status === null || record.status === wanted.status) &&
        (wanted.model === null || record.requestedModel === wanted.model) &&
        (wanted.keyId === null || record.keyId === wanted.keyId),
    );

  const leapDay = Date.UTC(2028, 1, 29);
  const filters: [string, () => LogFilter][] = [
    ['everything', () => filter()],
    ['failures', () => filter({ status: 'error' })],
    ['successes of one model', () => filter({ status: 'success', model: models[2] ?? '' })],
    ['one key', () => filter({ keyId: keyIds[1] ?? '' })],
    ['the leap day', () => filter({ from: leapDay, until: leapDay + dayMs })],
    [
      'the last millisecond of February',
      () => filter({ from: leapDay + dayMs - 1, until: leapDay + dayMs }),
    ],
    ['from a time of day on', () => filter({ from: leapDay + 5_000_000 })],
    [
      'between two times of one day',
      () => filter({ from: leapDay + 9_000_000, until: leapDay + 40_000_000, status: 'success' }),
    ],
    [
      'between times of two days',
      () =>
        filter({ from: leapDay - 7_000_000, until: leapDay + dayMs + 1, keyId: keyIds[0] ?? '' }),
    ],
    ['a model nobody asked for', () => filter({ model: 'acme/none' })],
    ['a time before anything happened', () => filter({ until: Date.UTC(2027, 0) })],
  ];

  test.each(filters)('the log of %s has the same rows on every page', async (_, wanted) => {
    const expected = matching(wanted());
    const offsets = [0, 1, 29, 99, Math.floor(expected.length / 2), expected.length - 3, 500];
    for (const offset of offsets.filter((at) => at >= 0)) {
      for (const limit of [1, 20, 100]) {
        const page = await store.logs.page(wanted(), limit, offset);
        expect(page.total).toBe(expected.length);
        expect(page.rows).toEqual(expected.slice(offset, offset + limit).map(shown));
      }
    }
  });

  test.each(filters)('the export of %s has all of them', async (_, wanted) => {
    const pages = await Array.fromAsync(store.logs.all(wanted()));
    expect(pages.flat()).toEqual(matching(wanted()).map(shown));
  });

  test('an export does not contain what is booked after it began', async () => {
    const { tenantId: own, keyId } = await addCustomer(store);
    const make = () => makeRecord({ tenantId: own, keyId });
    await book(store, [make(), make()]);
    const pages = store.logs.all(filter({ tenantId: own }))[Symbol.asyncIterator]();
    const first = await pages.next();
    await book(store, [make()]);
    expect(first.value).toHaveLength(2);
    expect(await pages.next()).toEqual({ done: true, value: undefined });
    expect((await store.logs.page(filter({ tenantId: own }), 10, 0)).total).toBe(3);
  });

  test('an export goes on where its last page ended, within one millisecond too', async () => {
    const { tenantId: own, keyId } = await addCustomer(store);
    const at = Date.UTC(2028, 4, 1);
    const records = Array.from({ length: 1_200 }, (_, n) =>
      makeRecord({ tenantId: own, keyId, createdAt: at + (n % 2) }),
    );
    for (let from = 0; from < 1_200; from += 400) {
      await book(store, records.slice(from, from + 400));
    }
    const exported = (await Array.fromAsync(store.logs.all(filter({ tenantId: own })))).flat();
    const booked = newestFirst(records.map((record, id) => ({ id, record })));
    expect(exported.map((row) => row.requestId)).toEqual(booked.map((row) => row.record.requestId));
  });

  test('only the tenant owns its keys, deleted ones too', async () => {
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
  ] as const)('analytics of %s are the sums of the log', async (_, which) => {
    const keyId = which === null ? null : (keyIds[which] ?? '');
    const days = await store.analytics.days({ tenantId, days: byDay, keyId });
    expect(days.map(({ day }) => day)).toEqual([byDay.first, byDay.first + 1, byDay.last]);
    for (const sums of days) {
      const records = matching(
        filter({ from: sums.day * dayMs, until: (sums.day + 1) * dayMs, keyId }),
      ).map(({ record }) => record);
      const sum = (of: (record: RequestRecord) => number) =>
        records.reduce((total, record) => total + of(record), 0);
      expect(sums).toEqual({
        day: sums.day,
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

  test('the finest groups come in pages that leave nothing out', async () => {
    const { tenantId: own, keyId } = await addCustomer(store);
    const records = Array.from({ length: 1_100 }, (_, n) =>
      makeRecord({ tenantId: own, keyId, requestedModel: `acme/chat-${n}` }),
    );
    await book(store, records);
    const days = { first: 0, last: 30_000 };
    const pages = await Array.fromAsync(
      store.analytics.groups({ tenantId: own, days, keyId: null }),
    );
    expect(pages.length).toBeGreaterThan(1);
    expect(new Set(pages.flat().map(({ model }) => model)).size).toBe(1_100);
    expect(pages.flat()).toHaveLength(1_100);
  });

  test('the finest groups come in the order of bytes, also from one page to the next', async () => {
    const { tenantId: own, keyId } = await addCustomer(store);
    const models = ['a', 'B', 'a-b', 'ab', 'É', 'z', '_', '😀'].flatMap((start) =>
      Array.from({ length: 70 }, (_, n) => `${start}/${n % 2 ? 'X' : 'x'}${n}`),
    );
    await book(
      store,
      models.map((requestedModel) => makeRecord({ tenantId: own, keyId, requestedModel })),
    );
    const days = { first: 0, last: 30_000 };
    const groups = { tenantId: own, days, keyId: null };
    const pages = await Array.fromAsync(store.analytics.groups(groups));
    expect(pages.map(({ length }) => length)).toEqual([500, 60]);
    const byBytes = models.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect(pages.flat().map(({ model }) => model)).toEqual(byBytes);
    const parts = await store.splits.splitSums(groups, 'model');
    expect(parts.map(({ value }) => value)).toEqual(byBytes.slice(0, parts.length));
  });

  test('the finest groups add up to the days', async () => {
    const all = { tenantId, days: byDay, keyId: null };
    const groups = (await Array.fromAsync(store.analytics.groups(all))).flat();
    const names = groups.map(({ day, keyId, model, provider, trafficMode }) =>
      JSON.stringify([day, keyId, model, provider, trafficMode]),
    );
    expect(new Set(names).size).toBe(groups.length);
    for (const { day, requests, modelCharge } of await store.analytics.days(all)) {
      const ofDay = groups.filter((group) => group.day === day);
      expect(ofDay.reduce((sum, group) => sum + group.requests, 0)).toBe(requests);
      expect(ofDay.reduce((sum, group) => sum + group.modelCharge, 0)).toBe(modelCharge);
    }
  });

  test('a key has spent what its requests cost, in the UTC day, week and month', async () => {
    const own = await addCustomer(store, 2_000_000);
    const other = await addKey(store, own.tenantId);
    const spend = (createdAt: number, modelCharge: number, keyId = own.keyId) =>
      makeRecord({ ...own, keyId, createdAt, charges: { ...noCharges, modelCharge } });
    // A Wednesday. Its week began in the month before.
    const now = Date.UTC(2028, 1, 2, 12);
    await book(store, [
      spend(Date.UTC(2028, 1, 2), 1),
      spend(Date.UTC(2028, 1, 1, 23, 59), 10),
      spend(Date.UTC(2028, 0, 31), 100),
      spend(Date.UTC(2028, 0, 30, 23, 59), 1_000),
      // As a process whose clock is ahead, or was, books them: they count when their day has come.
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
    const stranger = await store.keySpending.spent(tenantId, [own.keyId], now);
    expect(stranger.size).toBe(0);
  });

  test('a wallet tells grants, corrections and charges apart', async () => {
    const own = await addCustomer(store, 500);
    await grant(store, own.tenantId, 300);
    await grant(store, own.tenantId, -20);
    await book(store, [makeRecord({ ...own }), makeRecord({ ...own, status: 'error' })]);
    expect(await store.walletTotals.totals(own.tenantId)).toEqual({
      balance: 766,
      leased: 0,
      granted: 800,
      adjusted: -20,
      spent: 14,
      requests: 2,
    });
    const nobody = { balance: 0, leased: 0, granted: 0, adjusted: 0, spent: 0, requests: 0 };
    expect(await store.walletTotals.totals('ten_none')).toEqual(nobody);
  });

  test('texts that Postgres cannot hold are kept as well as it can', async () => {
    const own = await addCustomer(store);
    const names = ['a\0b', 'a\uFFFDb', 'a\uD800b', 'a\nb'];
    await book(
      store,
      names.map((name) => makeRecord({ ...own, requestedModel: name, finishReason: name })),
    );
    const wanted = filter({ tenantId: own.tenantId, model: 'a\uFFFDb' });
    expect((await store.logs.page(wanted, 10, 0)).total).toBe(3);
  });

  test('and the books are right, to the credit', async () => {
    expect(await discrepancies(store)).toEqual([]);
    const { spent } = await store.walletTotals.totals(tenantId);
    expect(spent).toBe(rows.reduce((sum, { record }) => sum + totalCharge(record.charges), 0));
  });
});
