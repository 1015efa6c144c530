import { type Selectable, sql } from 'kysely';
import type {
  ReencryptedCredential,
  ReencryptedObject,
  RotationStore,
  SealedObject,
} from '../../auth/secret-rotation.ts';
import type { StoredCredential, VaultStore } from '../../auth/vault.ts';
import { recordChanges, stateOf } from '../audit-log.ts';
import { BatchLoader, repeatToPowerOfTwo } from '../batch-loader.ts';
import { inVersionedTransaction } from '../changes.ts';
import {
  inTransaction,
  type ReadOnlyDatabase,
  SqlRepository,
  type StoreTransaction,
} from '../database.ts';
import type { ByokCredentialsTable } from '../schema.ts';
import { getOrCreateSetting, readSetting, replaceSetting } from '../settings.ts';

/** Fingerprints of the current key and, until a rotation has finished, of the previous one. */
export const fingerprintSetting = 'secret_key_fingerprint';
const previousFingerprintSetting = 'former_secret_key_fingerprint';
const noFingerprint = '';

export class SqlCredentials extends SqlRepository implements VaultStore, RotationStore {
  readonly #listLoader = new BatchLoader((tenantIds: readonly string[]) =>
    this.#listAll(tenantIds),
  );

  list(tenantId: string): Promise<readonly StoredCredential[]> {
    return this.#listLoader.load(tenantId);
  }

  async #listAll(
    tenantIds: readonly string[],
  ): Promise<(tenantId: string) => readonly StoredCredential[]> {
    const rows = await this.database.read
      .selectFrom('byok_credentials')
      .selectAll()
      .where('tenant_id', 'in', repeatToPowerOfTwo(tenantIds))
      .orderBy('provider')
      .execute();
    const byTenant = Map.groupBy(rows, (row) => row.tenant_id);
    return (tenantId) => (byTenant.get(tenantId) ?? []).map(credentialOf);
  }

  save(byKey: ReadonlyMap<string, StoredCredential>): Promise<StoredCredential | undefined> {
    const [{ tenantId } = { tenantId: null }] = byKey.values();
    return inVersionedTransaction(this.database, tenantId, async (trx) => {
      // In one transaction, so that processes with different keys can't both save a credential.
      const [first = noFingerprint] = byKey.keys();
      const credential = byKey.get(await getOrCreateSetting(trx, fingerprintSetting, first));
      if (!credential) return undefined;
      const { tenant_id, provider, created_at, ...rest } = rowOf(credential);
      const before = await findRow(trx, tenant_id, provider);
      const row = await trx
        .insertInto('byok_credentials')
        .values({ tenant_id, provider, created_at, ...rest })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'provider']).doUpdateSet(rest))
        .returningAll()
        .executeTakeFirstOrThrow();
      await recordKey(trx, 'provider_key.set', before ?? null, row);
      return credentialOf(row);
    });
  }

  remove(tenantId: string, provider: string): Promise<boolean> {
    return inVersionedTransaction(this.database, tenantId, async (trx) => {
      const row = await trx
        .deleteFrom('byok_credentials')
        .where('tenant_id', '=', tenantId)
        .where('provider', '=', provider)
        .returningAll()
        .executeTakeFirst();
      if (row) await recordKey(trx, 'provider_key.delete', row, null);
      return row !== undefined;
    });
  }

  async hasKey(): Promise<boolean> {
    return (await readSetting(this.database, fingerprintSetting)) !== undefined;
  }

  claimKeys(held: readonly string[], isStart: boolean): Promise<boolean> {
    return inTransaction(this.database, async (trx) => {
      if (await holdsAll(trx, held)) return true;
      const stored = await trx.selectFrom('byok_credentials').select('provider').executeTakeFirst();
      const object = await trx
        .selectFrom('config_objects')
        .select('name')
        .where('sealed', 'is not', null)
        .executeTakeFirst();
      if (!isStart || stored || object) return false;
      await replaceSetting(trx, fingerprintSetting, held[0] ?? noFingerprint);
      await replaceSetting(trx, previousFingerprintSetting, noFingerprint);
      return true;
    });
  }

  page(after: StoredCredential | undefined, count: number): Promise<readonly StoredCredential[]> {
    return new SqlCredentialPages(this.database).page(after, count);
  }

  sealedObjects(): Promise<readonly SealedObject[]> {
    return new SqlCredentialPages(this.database).sealedObjects();
  }

  switchTo(target: string, held: readonly string[]): Promise<boolean> {
    return inTransaction(this.database, async (trx) => {
      if (!(await holdsAll(trx, held))) return false;
      const inUse = await getOrCreateSetting(trx, fingerprintSetting, target);
      if (inUse === target) return true;
      await replaceSetting(trx, fingerprintSetting, target);
      await replaceSetting(trx, previousFingerprintSetting, inUse);
      const states = { before: { fingerprint: inUse }, after: { fingerprint: target } };
      const change = { action: 'secret_key.rotate', target: 'secret_key', tenantId: null };
      await recordChanges(trx, [{ ...change, ...states }], Date.now());
      return true;
    });
  }

  reencrypt(rows: readonly ReencryptedCredential[], inUse: string): Promise<boolean> {
    return inTransaction(this.database, async (trx) => {
      if (!(await isInUse(trx, inUse))) return false;
      for (const { before, ciphertext } of rows) {
        await trx
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

  reencryptObjects(objects: readonly ReencryptedObject[], inUse: string): Promise<boolean> {
    return inTransaction(this.database, async (trx) => {
      if (!(await isInUse(trx, inUse))) return false;
      for (const { before, sealed } of objects) {
        await trx
          .updateTable('config_objects')
          .set({ sealed })
          .where('kind', '=', before.kind)
          .where('name', '=', before.name)
          .where('sealed', '=', before.sealed)
          .execute();
      }
      return true;
    });
  }

  finish(inUse: string): Promise<boolean> {
    return inTransaction(this.database, async (trx) => {
      if (!(await isInUse(trx, inUse))) return false;
      await replaceSetting(trx, previousFingerprintSetting, noFingerprint);
      return true;
    });
  }
}

/** Reads all credentials in pages, including from a database that is open for reading only. */
export class SqlCredentialPages implements Pick<RotationStore, 'page' | 'sealedObjects'> {
  readonly #database: ReadOnlyDatabase;

  constructor(database: ReadOnlyDatabase) {
    this.#database = database;
  }

  async page(
    after: StoredCredential | undefined,
    count: number,
  ): Promise<readonly StoredCredential[]> {
    const { tenantId = '', provider = '' } = after ?? {};
    const rows = await this.#database.read
      .selectFrom('byok_credentials')
      .selectAll()
      .where(sql<boolean>`(tenant_id, provider) > (${tenantId}, ${provider})`)
      .orderBy('tenant_id')
      .orderBy('provider')
      .limit(count)
      .execute();
    return rows.map(credentialOf);
  }

  async sealedObjects(): Promise<readonly SealedObject[]> {
    const rows = await this.#database.read
      .selectFrom('config_objects')
      .select(['kind', 'name', 'sealed'])
      .where('sealed', 'is not', null)
      .execute();
    return rows.flatMap(({ kind, name, sealed }) => (sealed ? [{ kind, name, sealed }] : []));
  }
}

function findRow(trx: StoreTransaction, tenantId: string, provider: string) {
  return trx
    .selectFrom('byok_credentials')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('provider', '=', provider)
    .executeTakeFirst();
}

type CredentialRow = Selectable<ByokCredentialsTable>;

async function recordKey(
  trx: StoreTransaction,
  action: string,
  before: CredentialRow | null,
  after: CredentialRow | null,
): Promise<void> {
  const { provider = '', tenant_id: tenantId = null } = after ?? before ?? {};
  const states = { before: before && stateOf(before), after: after && stateOf(after) };
  await recordChanges(trx, [{ action, target: provider, tenantId, ...states }], Date.now());
}

async function isInUse(trx: StoreTransaction, fingerprint: string): Promise<boolean> {
  return (await getOrCreateSetting(trx, fingerprintSetting, fingerprint)) === fingerprint;
}

/** True if these keys can decrypt every stored credential. */
async function holdsAll(trx: StoreTransaction, held: readonly string[]): Promise<boolean> {
  const inUse = await getOrCreateSetting(trx, fingerprintSetting, held[0] ?? noFingerprint);
  const previous = await getOrCreateSetting(trx, previousFingerprintSetting, noFingerprint);
  return held.includes(inUse) && (previous === noFingerprint || held.includes(previous));
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
