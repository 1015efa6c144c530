import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { TenantOrder } from '../../src/auth/tenant-directory.ts';
import { toSettlementEntry } from '../../src/money/ledger.ts';
import { noCharges } from '../../src/money/price/fee-kinds.ts';
import { daysOf, monthAround } from '../../src/records/period.ts';
import { dayMs, grant, makeRecord } from './bookings.ts';
import { engines, makeTenant, openTwice, type TwoStores } from './engines.ts';

/** In the middle of a February with 29 days. */
const now = Date.UTC(2028, 1, 15, 12);
const days = daysOf(monthAround(now));

interface RequestSummary {
  readonly credits: number;
  readonly writtenOff?: number;
  readonly isFailed?: boolean;
  readonly createdAt?: number;
}

describe.each(engines)('SqlTenantDirectory.listTenants on $name', ({ empty }) => {
  let stores: TwoStores;

  async function add(
    id: string,
    name: string,
    granted: number,
    requests: readonly RequestSummary[],
  ) {
    const { one } = stores;
    const createdAt = 1_700_000_000_000 + id.charCodeAt(0);
    await one.directory.addTenant(makeTenant({ id, name, createdAt }));
    if (granted > 0) await grant(one, id, granted);
    const entries = requests.map(
      ({ credits, writtenOff = 0, isFailed = false, createdAt: requestedAt = now }) => {
        const charges = { ...noCharges, modelCharge: credits - 1, managedToolFee: 1 };
        const status = isFailed ? 'error' : 'success';
        const record = makeRecord({
          tenantId: id,
          status,
          charges: isFailed ? noCharges : charges,
          createdAt: requestedAt,
        });
        return toSettlementEntry({ record, writtenOff, keyAccount: null, keyCharge: 0 });
      },
    );
    if (entries.length > 0) {
      await one.ledger.commit({ processId: 'test', entries, mayRepeat: false, now });
    }
  }

  beforeAll(async () => {
    stores = await openTwice(empty);
    const failed = { credits: 0, isFailed: true };
    await add('d-late', 'Zebra!', 5_000, [{ credits: 40 }, { credits: 2, writtenOff: 9 }]);
    await add('a-early', 'acme_50%', 900, [{ credits: 10 }, failed, failed]);
    await add('c-idle', 'Ünïcode', 0, []);
    // The first and last millisecond of the month, and the ones just outside it.
    await add('b-edges', 'Beta', 100_000, [
      { credits: 7_000, createdAt: Date.UTC(2028, 1, 1) - 1 },
      { credits: 3, createdAt: Date.UTC(2028, 1, 1) },
      { credits: 5, createdAt: Date.UTC(2028, 2, 1) - 1 },
      { credits: 8_000, createdAt: Date.UTC(2028, 2, 1) },
      { credits: 600, createdAt: now - 370 * dayMs },
    ]);
  }, 120_000);
  afterAll(() => stores?.close());

  const listed = async (by: TenantOrder['by'], isDescending: boolean, more: object = {}) => {
    const page = { limit: 10, offset: 0, order: { by, isDescending, days }, ...more };
    return (await stores.other.directory.listTenants(page)).map(({ id }) => id).join(' ');
  };

  test.each([
    ['created_at', 'a-early b-edges c-idle d-late'],
    ['name', 'a-early b-edges d-late c-idle'],
    // Balances: 0, 890, 4,958, and 84,392.
    ['credits', 'c-idle a-early d-late b-edges'],
    // Spending: 0, 8, 10, and 42.
    ['spend', 'c-idle b-edges a-early d-late'],
    // Requests: 0, 2, 2, and 3. Ties are sorted by ID.
    ['requests', 'c-idle b-edges d-late a-early'],
    ['failed_requests', 'b-edges c-idle d-late a-early'],
    ['written_off', 'a-early b-edges c-idle d-late'],
  ] as const)('sorts by %s', async (by, expected) => {
    expect(await listed(by, false)).toBe(expected);
  });

  test('sorts in descending order, with ties still sorted by ascending ID', async () => {
    expect(await listed('spend', true)).toBe('d-late a-early b-edges c-idle');
    expect(await listed('requests', true)).toBe('a-early b-edges d-late c-idle');
    expect(await listed('failed_requests', true)).toBe('a-early b-edges c-idle d-late');
  });

  test('lists each tenant once across pages', async () => {
    const pages = [0, 1, 2, 3, 4].map((offset) => listed('requests', true, { limit: 1, offset }));
    expect((await Promise.all(pages)).join(' ').trim()).toBe('a-early b-edges d-late c-idle');
  });

  test.each([
    ['EARLY', 'a-early'],
    ['zeb', 'd-late'],
    ['Ünï', 'c-idle'],
    // Characters that have a special meaning in patterns.
    ['_50%', 'a-early'],
    ['%', 'a-early'],
    ['e_l', ''],
    ['\\', ''],
    ['!', 'd-late'],
    ['!!', ''],
    ["'; drop table tenants; --", ''],
    ['-', 'a-early b-edges c-idle d-late'],
  ])('searches %p in names and IDs', async (search, expected) => {
    expect(await listed('created_at', false, { search })).toBe(expected);
  });

  test('lists the tenants of a plan', async () => {
    await stores.one.directory.changeTenant('c-idle', { plan: 'pro' }, 9);
    expect(await listed('created_at', false, { plan: 'pro' })).toBe('c-idle');
    expect(await listed('created_at', false, { plan: 'p' })).toBe('');
  });

  test('sums only the requests of the month', async () => {
    const ids = ['a-early', 'b-edges', 'c-idle', 'nobody'];
    const sums = await stores.other.tenantSums.sumsOf(ids, days);
    expect(sums.toSorted((a, b) => a.tenantId.localeCompare(b.tenantId))).toEqual([
      { tenantId: 'a-early', requests: 3, failed: 2, spend: 10, writtenOff: 0 },
      { tenantId: 'b-edges', requests: 2, failed: 0, spend: 8, writtenOff: 0 },
    ]);
    expect(await stores.other.tenantSums.sumsOf(['d-late'], days)).toMatchObject([
      { spend: 42, writtenOff: 9 },
    ]);
    expect(await stores.other.tenantSums.sumsOf([], days)).toEqual([]);
  });
});
