import type { Selectable } from 'kysely';
import type { StoredCredential, VaultStore } from '../auth/vault.ts';
import type { Database, StoreTransaction } from './database.ts';
import { bumpVersion } from './directory/directory.ts';
import type { ByokCredentialsTable } from './schema.ts';
import { claimSetting, replaceSetting } from './settings.ts';

const fingerprintSetting = 'secret_key_fingerprint';

export class SqlCredentials implements VaultStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async list(tenantId: string): Promise<readonly StoredCredential[]> {
    const rows = await this.#database.read
      .selectFrom('byok_credentials')
      .selectAll()
      .where('tenant_id', '=', tenantId)
      .orderBy('provider')
      .execute();
    return rows.map(credentialOf);
  }

  save(credential: StoredCredential, fingerprint: string): Promise<StoredCredential | undefined> {
    return this.#change(async (change) => {
      // In the same transaction: two processes with two keys must not both leave something behind.
      if (!(await claimFingerprint(change, fingerprint, false))) return undefined;
      const { tenant_id, provider, created_at, ...rest } = rowOf(credential);
      const row = await change
        .insertInto('byok_credentials')
        .values({ tenant_id, provider, created_at, ...rest })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'provider']).doUpdateSet(rest))
        .returningAll()
        .executeTakeFirstOrThrow();
      await bumpVersion(change);
      return credentialOf(row);
    });
  }

  remove(tenantId: string, provider: string): Promise<boolean> {
    return this.#change(async (change) => {
      const row = await change
        .deleteFrom('byok_credentials')
        .where('tenant_id', '=', tenantId)
        .where('provider', '=', provider)
        .returning('provider')
        .executeTakeFirst();
      if (!row) return false;
      await bumpVersion(change);
      return true;
    });
  }

  claimKey(fingerprint: string, isStart: boolean): Promise<boolean> {
    return this.#change((change) => claimFingerprint(change, fingerprint, isStart));
  }

  #change<T>(work: (change: StoreTransaction) => Promise<T>): Promise<T> {
    return this.#database.write.transaction().execute(work);
  }
}

async function claimFingerprint(
  change: StoreTransaction,
  wanted: string,
  mayReplace: boolean,
): Promise<boolean> {
  if ((await claimSetting(change, fingerprintSetting, wanted)) === wanted) return true;
  if (!mayReplace) return false;
  const kept = await change.selectFrom('byok_credentials').select('provider').executeTakeFirst();
  if (kept) return false;
  await replaceSetting(change, fingerprintSetting, wanted);
  return true;
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
