/** A day's answers under idempotency keys are removed without getting in anybody's way. */
import { expect, test } from 'bun:test';
import { newRequestId } from '../../src/core/ids.ts';
import type { Store } from '../../src/store/open.ts';
import { addTenant, engines, openTwice, type TwoStores } from './engines.ts';

const testMs = 120_000;
/** More than go in two changes, fewer than in three. */
const expiredRows = 1_200;

async function openFull(engine: string): Promise<TwoStores & { readonly tenantId: string }> {
  const empty = engines.find(({ name }) => name === engine)?.empty;
  if (!empty) throw new Error(`There is no engine ${engine}.`);
  const stores = await openTwice(empty);
  const tenantId = await addTenant(stores.one);
  const rows = Array.from({ length: expiredRows }, (_, at) => ({
    ...{ tenant_id: tenantId, key: `old-${at}`, fingerprint: 'f', request_id: newRequestId() },
    ...{ is_done: 1 as const, recording: null, expires_at: at },
  }));
  await stores.one.database.write.insertInto('idempotency_claims').values(rows).execute();
  return { ...stores, tenantId };
}

async function keysOf({ database }: Store, tenantId: string): Promise<readonly string[]> {
  const rows = await database.read
    .selectFrom('idempotency_claims')
    .select('key')
    .where('tenant_id', '=', tenantId)
    .execute();
  return rows.map(({ key }) => key);
}

test(
  'on SQLite, which takes one change at a time, others come in between',
  async () => {
    const { one, tenantId, close } = await openFull('SQLite');
    const claims = ['a', 'b', 'c'].map((key) => {
      return { tenantId, key, fingerprint: 'f', requestId: newRequestId() };
    });
    for (const claim of claims) await one.claims.claim(claim, expiredRows, 30_000);
    const order: string[] = [];
    const removing = one.claims.removeExpired(expiredRows).then(() => order.push('removed'));
    // One statement each, so each of them has its turn behind one batch.
    for (const claim of claims) {
      await one.claims.release(claim);
      order.push(claim.key);
    }
    await removing;
    expect(order).toEqual(['a', 'b', 'c', 'removed']);
    expect(await keysOf(one, tenantId)).toEqual([]);
    await close();
  },
  testMs,
);

test(
  'on Postgres one that is in use right now is left for the next time',
  async () => {
    const { one, other, tenantId, close } = await openFull('Postgres');
    await one.database.write.transaction().execute(async (change) => {
      await change
        .selectFrom('idempotency_claims')
        .select('key')
        .where('tenant_id', '=', tenantId)
        .where('key', '=', 'old-7')
        .forUpdate()
        .execute();
      await other.claims.removeExpired(expiredRows);
      expect(await keysOf(other, tenantId)).toEqual(['old-7']);
    });
    await other.claims.removeExpired(expiredRows);
    expect(await keysOf(other, tenantId)).toEqual([]);
    await close();
  },
  testMs,
);
