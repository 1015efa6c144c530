import { type Selectable, sql } from 'kysely';
import type { Resealed, RotationStore } from '../auth/secret-rotation.ts';
import type { StoredCredential, VaultStore } from '../auth/vault.ts';
import { inTransaction, OnDatabase, type StoreTransaction } from './database.ts';
import { tellingAll } from './directory/directory.ts';
import { Gathered, padded } from './gathered.ts';
import type { ByokCredentialsTable } from './schema.ts';
import { claimSetting, readSetting, replaceSetting } from './settings.ts';

/** Fingerprints of the key that encrypts and, until a rotation has ended, of the one before it. */
const fingerprintSetting = 'secret_key_fingerprint';
const formerSetting = 'former_secret_key_fingerprint';
const none = '';

export class SqlCredentials extends OnDatabase implements VaultStore, RotationStore {
  readonly #lists = new Gathered((tenantIds: readonly string[]) => this.#listAll(tenantIds));

  list(tenantId: string): Promise<readonly StoredCredential[]> {
    return this.#lists.ask(tenantId);
  }

  async #listAll(
    tenantIds: readonly string[],
  ): Promise<(tenantId: string) => readonly StoredCredential[]> {
    const rows = await this.database.read
      .selectFrom('byok_credentials')
      .selectAll()
      .where('tenant_id', 'in', padded(tenantIds))
      .orderBy('provider')
      .execute();
    const byTenant = Map.groupBy(rows, (row) => row.tenant_id);
    return (tenantId) => (byTenant.get(tenantId) ?? []).map(credentialOf);
  }

  save(byKey: ReadonlyMap<string, StoredCredential>): Promise<StoredCredential | undefined> {
    return tellingAll(this.database, async (change) => {
      // In the same transaction: two processes with different keys must not both save a credential.
      const [first = none] = byKey.keys();
      const credential = byKey.get(await claimSetting(change, fingerprintSetting, first));
      if (!credential) return undefined;
      const { tenant_id, provider, created_at, ...rest } = rowOf(credential);
      const row = await change
        .insertInto('byok_credentials')
        .values({ tenant_id, provider, created_at, ...rest })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'provider']).doUpdateSet(rest))
        .returningAll()
        .executeTakeFirstOrThrow();
      return credentialOf(row);
    });
  }

  remove(tenantId: string, provider: string): Promise<boolean> {
    return tellingAll(this.database, async (change) => {
      const row = await change
        .deleteFrom('byok_credentials')
        .where('tenant_id', '=', tenantId)
        .where('provider', '=', provider)
        .returning('provider')
        .executeTakeFirst();
      return row !== undefined;
    });
  }

  async hasKey(): Promise<boolean> {
    return (await readSetting(this.database, fingerprintSetting)) !== undefined;
  }

  claimKeys(held: readonly string[], isStart: boolean): Promise<boolean> {
    return inTransaction(this.database, async (change) => {
      if (await holdsAll(change, held)) return true;
      const kept = await change
        .selectFrom('byok_credentials')
        .select('provider')
        .executeTakeFirst();
      if (!isStart || kept) return false;
      await replaceSetting(change, fingerprintSetting, held[0] ?? none);
      await replaceSetting(change, formerSetting, none);
      return true;
    });
  }

  async page(after: StoredCredential | undefined, count: number) {
    const { tenantId = '', provider = '' } = after ?? {};
    const rows = await this.database.read
      .selectFrom('byok_credentials')
      .selectAll()
      .where(sql<boolean>`(tenant_id, provider) > (${tenantId}, ${provider})`)
      .orderBy('tenant_id')
      .orderBy('provider')
      .limit(count)
      .execute();
    return rows.map(credentialOf);
  }

  turnTo(wanted: string, held: readonly string[]): Promise<boolean> {
    return inTransaction(this.database, async (change) => {
      if (!(await holdsAll(change, held))) return false;
      const inUse = await claimSetting(change, fingerprintSetting, wanted);
      if (inUse === wanted) return true;
      await replaceSetting(change, fingerprintSetting, wanted);
      await replaceSetting(change, formerSetting, inUse);
      return true;
    });
  }

  reseal(rows: readonly Resealed[], inUse: string): Promise<boolean> {
    return inTransaction(this.database, async (change) => {
      if (!(await isInUse(change, inUse))) return false;
      for (const { before, ciphertext } of rows) {
        await change
          .updateTable('byok_credentials')
          .set({ ciphertext })
          .where('tenant_id', '=', before.tenantId)
          .where('provider', '=', before.provider)
          .where('ciphertext', '=', before.ciphertext)
          .execute();
      }
      return true;
    });
  }

  finish(inUse: string): Promise<boolean> {
    return inTransaction(this.database, async (change) => {
      if (!(await isInUse(change, inUse))) return false;
      await replaceSetting(change, formerSetting, none);
      return true;
    });
  }
}

async function isInUse(change: StoreTransaction, fingerprint: string): Promise<boolean> {
  return (await claimSetting(change, fingerprintSetting, fingerprint)) === fingerprint;
}

/** Whether these keys can decrypt every credential that is kept. */
async function holdsAll(change: StoreTransaction, held: readonly string[]): Promise<boolean> {
  const inUse = await claimSetting(change, fingerprintSetting, held[0] ?? none);
  const former = await claimSetting(change, formerSetting, none);
  return held.includes(inUse) && (former === none || held.includes(former));
}

function credentialOf(row: Selectable<ByokCredentialsTable>): StoredCredential {
  return {
    tenantId: row.tenant_id,
    provider: row.provider,
    ciphertext: row.ciphertext,
    baseUrl: row.base_url,
    mode: row.mode,
    label: row.label,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function rowOf(credential: StoredCredential): ByokCredentialsTable {
  return {
    tenant_id: credential.tenantId,
    provider: credential.provider,
    ciphertext: credential.ciphertext,
    base_url: credential.baseUrl,
    mode: credential.mode,
    label: credential.label,
    created_at: credential.createdAt,
    updated_at: credential.updatedAt,
  };
}
