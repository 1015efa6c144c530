/**
 * Tests with a store that is down for longer than a lease lasts and comes back between two
 * renewals.
 */
import { afterAll, beforeAll, beforeEach, expect, spyOn, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeTenant } from '../../../tests/contracts/engines.ts';
import { callerOf } from '../../../tests/support/money/settlements.ts';
import { openStore, type Store } from '../../store/open.ts';
import { Wallets } from './wallets.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-store-outage-'));
const { id: tenantId, ...tenant } = makeTenant();
const amounts = { requested: 10, minimum: 10 };
let store: Store;
let renew: ReturnType<typeof spyOn<Store['ledger'], 'renew'>>;
let now = Date.UTC(2030, 0, 15, 12);

beforeAll(async () => {
  store = await openStore(`sqlite:${join(folder, 'tollgate.db')}`);
  renew = spyOn(store.ledger, 'renew');
  await store.directory.addTenant({ id: tenantId, ...tenant });
  await store.creditStore.change({ tenantId, amount: 1_000, note: '', idempotencyKey: null, now });
});
afterAll(async () => {
  await store.database.close();
  rmSync(folder, { recursive: true });
});
beforeEach(() => renew.mockClear());

async function holdAfterOutage(name: string): Promise<Wallets> {
  const wallets = new Wallets(store.ledger, name, () => now);
  await wallets.hold(callerOf(tenantId), amounts);
  renew.mockRejectedValueOnce(new Error('unavailable'));
  await expect(wallets.renew()).rejects.toThrow('unavailable');
  // Leases live for 2 minutes and aren't used in their last 10 seconds.
  now += 111_000;
  const rejected = async () => wallets.hold(callerOf(tenantId), amounts);
  await expect(rejected()).rejects.toMatchObject({ symbol: 'service_unavailable' });
  return wallets;
}

test('Wallets hold credits again as soon as a commit succeeds', async () => {
  const wallets = await holdAfterOutage('booked');
  wallets.booked([]);
  await renew.mock.results.at(-1)?.value;
  await Bun.sleep(0);
  expect((await wallets.hold(callerOf(tenantId), amounts)).credits).toBe(10);
  expect(renew).toHaveBeenCalledTimes(2);
});

test('Wallets renew leases after a commit only while the store counts as down', async () => {
  const wallets = await holdAfterOutage('down');
  renew.mockRejectedValueOnce(new Error('unavailable'));
  wallets.booked([]);
  await Bun.sleep(0);
  const rejected = async () => wallets.hold(callerOf(tenantId), amounts);
  await expect(rejected()).rejects.toMatchObject({ symbol: 'service_unavailable' });
  await wallets.renew();
  wallets.booked([]);
  await Bun.sleep(0);
  expect(renew).toHaveBeenCalledTimes(3);
  expect((await wallets.hold(callerOf(tenantId), amounts)).credits).toBe(10);
});
