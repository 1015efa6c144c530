import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { ensureDeploymentId, pinCreditRate } from '../../src/store/settings.ts';
import { addTenant, engines, openTwice, type TwoStores } from './engines.ts';

describe.each([...engines])('pinCreditRate on $name', ({ empty }) => {
  let stores: TwoStores;

  beforeAll(async () => {
    stores = await openTwice(empty);
  }, 120_000);

  afterAll(() => stores.close());

  test('accepts a new rate until the ledger has an entry', async () => {
    const { one, other } = stores;
    const deployment = await ensureDeploymentId(one.database);
    expect(await pinCreditRate(one.database, 1000)).toBe(1000);
    expect(await pinCreditRate(other.database, 500)).toBe(500);
    // Changing the rate must not change other settings.
    expect(await ensureDeploymentId(other.database)).toBe(deployment);
    const tenantId = await addTenant(one);
    const grant = { tenantId, amount: 7, note: '', idempotencyKey: null, now: 1_000 };
    await one.creditStore.change(grant);
    expect(await pinCreditRate(other.database, 1000)).toBe(500);
    expect(await pinCreditRate(one.database, 500)).toBe(500);
  });

  test('returns the same rate to concurrent starts', async () => {
    const { one, other } = stores;
    const rates = [one, other, one, other].map(({ database }, i) => pinCreditRate(database, i + 1));
    expect(await Promise.all(rates)).toEqual([500, 500, 500, 500]);
  });
});
