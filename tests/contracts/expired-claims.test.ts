/** Removing a day's expired idempotency keys must not block other changes. */
import { describe, expect, test } from 'bun:test';
import { newRequestId } from '../../src/core/ids.ts';
import type { Store } from '../../src/store/open.ts';
import { addTenant, engines, openTwice, type TwoStores } from './engines.ts';

const testMs = 120_000;
/** Between 2 and 3 batches. */
const expiredRows = 1_200;

async function openFull(engine: string): Promise<TwoStores & { readonly tenantId: string }> {
  const empty = engines.find(({ name }) => name === engine)?.empty;
  if (!empty) throw new Error(`There is no engine ${engine}.`);
  const stores = await openTwice(empty);
  const tenantId = await addTenant(stores.one);
  const rows = Array.from({ length: expiredRows }, (_, i) => ({
    ...{ tenant_id: tenantId, key: `old-${i}`, fingerprint: 'f', request_id: newRequestId() },
    ...{ is_done: 1 as const, recording: null, expires_at: i },
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

describe('SqlIdempotencyClaims.removeExpired', () => {
  test(
    'lets other changes run between its batches on SQLite',
    async () => {
      const { one, tenantId, close } = await openFull('SQLite');
      const claims = ['a', 'b', 'c'].map((key) => {
        return { tenantId, key, fingerprint: 'f', requestId: newRequestId() };
      });
      for (const claim of claims) await one.claims.claim(claim, expiredRows, 30_000);
      const order: string[] = [];
      const removing = one.claims.removeExpired(expiredRows).then(() => order.push('removed'));
      // Each release is one statement, so each runs after one batch.
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
    'skips locked rows until the next run on Postgres',
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
});
