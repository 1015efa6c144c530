import { sql, type UpdateObject } from 'kysely';
import type {
  ApiKey,
  Directory,
  KeyChange,
  KeyMatch,
  KeyPage,
  NewSecret,
  Tenant,
  TenantChange,
  TenantPage,
} from '../../auth/directory.ts';
import { walletName } from '../../ledger/owner.ts';
import { type Database, inTransaction, OnDatabase, type StoreTransaction } from '../database.ts';
import { Gathered } from '../gathered.ts';
import type { Schema } from '../schema.ts';
import { claimSetting, readSetting, replaceSetting } from '../settings.ts';
import { findKeys } from './find-keys.ts';
import { keyOf, keyRow, keyUpdate, tenantOf, tenantRow, tenantUpdate } from './rows.ts';
import { keyHolds, tenantHolds } from './search.ts';
import { rankOf } from './tenant-order.ts';

const adminTokenSetting = 'admin_token_sha256';

/** A mark takes two parameters; SQLite takes 32,766 in one statement. */
const marksPerStatement = 1_000;

export class SqlDirectory extends OnDatabase implements Directory {
  readonly #lookUps = new Gathered((hashes: readonly Uint8Array[]) =>
    findKeys(this.database, hashes),
  );

  findKey(hash: Uint8Array): Promise<KeyMatch | undefined> {
    return this.#lookUps.ask(hash);
  }

  async addTenant(tenant: Tenant): Promise<'added' | 'exists'> {
    const added = await tellingAll(this.database, async (change) => {
      const row = await change
        .insertInto('tenants')
        .values(tenantRow(tenant))
        .onConflict((conflict) => conflict.column('id').doNothing())
        .returning('id')
        .executeTakeFirst();
      if (!row) return undefined;
      await change
        .insertInto('accounts')
        .values({ tenant_id: tenant.id, owner: walletName(tenant.id) })
        .execute();
      return row;
    });
    return added ? 'added' : 'exists';
  }

  async getTenant(id: string): Promise<Tenant | undefined> {
    const row = await this.database.read
      .selectFrom('tenants')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirst();
    return row && tenantOf(row);
  }

  async listTenants({ search = '', order, limit, offset }: TenantPage): Promise<readonly Tenant[]> {
    const { report, engine } = this.database;
    const rows = await report
      .selectFrom('tenants')
      .selectAll()
      .$if(search !== '', (query) => query.where(tenantHolds(search, engine)))
      .orderBy(order ? rankOf(order, engine) : 'created_at', order?.isDescending ? 'desc' : 'asc')
      .orderBy('id')
      .limit(limit)
      .offset(offset)
      .execute();
    return rows.map(tenantOf);
  }

  changeTenant(id: string, change: TenantChange, now: number): Promise<Tenant | undefined> {
    return tellingAll(this.database, async (transaction) => {
      const row = await transaction
        .updateTable('tenants')
        .set({ ...tenantUpdate(change), updated_at: now })
        .where('id', '=', id)
        .returningAll()
        .executeTakeFirst();
      return row && tenantOf(row);
    });
  }

  async addKey(key: ApiKey, hash: Uint8Array): Promise<'added' | 'exists'> {
    const added = await tellingAll(this.database, (change) =>
      change
        .insertInto('api_keys')
        .values(keyRow(key, hash))
        .onConflict((conflict) => conflict.doNothing())
        .returning('id')
        .executeTakeFirst(),
    );
    return added ? 'added' : 'exists';
  }

  async getKey(tenantId: string, id: string): Promise<ApiKey | undefined> {
    const row = await this.database.read
      .selectFrom('api_keys')
      .selectAll()
      .where('tenant_id', '=', tenantId)
      .where('id', '=', id)
      .where('deleted_at', 'is', null)
      .executeTakeFirst();
    return row && keyOf(row);
  }

  async countKeys(tenantId: string): Promise<number> {
    const row = await this.database.read
      .selectFrom('api_keys')
      .select((of) => of.fn.countAll<number>().as('count'))
      .where('tenant_id', '=', tenantId)
      .where('deleted_at', 'is', null)
      .executeTakeFirstOrThrow();
    return row.count;
  }

  async listKeys(tenantId: string, page: KeyPage): Promise<readonly ApiKey[]> {
    const { report, engine } = this.database;
    const { search = '' } = page;
    const rows = await report
      .selectFrom('api_keys')
      .selectAll()
      .where('tenant_id', '=', tenantId)
      .where('deleted_at', 'is', null)
      .$if(!page.includeDisabled, (query) => query.where('disabled', '=', 0))
      .$if(search !== '', (query) => query.where(keyHolds(search, engine)))
      .orderBy('created_at')
      .orderBy('id')
      .limit(page.limit)
      .offset(page.offset)
      .execute();
    return rows.map(keyOf);
  }

  changeKey(
    tenantId: string,
    id: string,
    change: KeyChange,
    now: number,
  ): Promise<ApiKey | undefined> {
    return this.#updateKey(tenantId, id, { ...keyUpdate(change), updated_at: now });
  }

  async deleteKey(tenantId: string, id: string, now: number): Promise<boolean> {
    const gone = { secret_hash: null, previous_hash: null, previous_until: null };
    const deleted = { ...gone, deleted_at: now, updated_at: now };
    return (await this.#updateKey(tenantId, id, deleted)) !== undefined;
  }

  rotateKey(
    tenantId: string,
    id: string,
    secret: NewSecret,
    now: number,
  ): Promise<ApiKey | undefined> {
    // An old secret that is over is not kept: a clock that is behind would let it work on.
    const isKept = secret.oldUntil > now;
    return this.#updateKey(tenantId, id, {
      previous_hash: isKept ? sql.ref('secret_hash') : null,
      previous_until: isKept ? secret.oldUntil : null,
      secret_hash: secret.hash,
      label: secret.label,
      updated_at: now,
    });
  }

  /** Undefined where there is no such key, or it was deleted. */
  #updateKey(
    tenantId: string,
    id: string,
    update: UpdateObject<Schema, 'api_keys'>,
  ): Promise<ApiKey | undefined> {
    return tellingAll(this.database, async (change) => {
      const row = await change
        .updateTable('api_keys')
        .set(update)
        .where('tenant_id', '=', tenantId)
        .where('id', '=', id)
        .where('deleted_at', 'is', null)
        .returningAll()
        .executeTakeFirst();
      return row && keyOf(row);
    });
  }

  async markUsed(lastUsed: ReadonlyMap<string, number>): Promise<void> {
    const marks = [...lastUsed];
    for (let start = 0; start < marks.length; start += marksPerStatement) {
      const some = marks.slice(start, start + marksPerStatement);
      await inTransaction(this.database, (change) => this.#mark(change, some));
    }
  }

  async #mark(change: StoreTransaction, marks: readonly [string, number][]): Promise<void> {
    if (this.database.engine === 'postgres') {
      // Two processes that mark the same keys in different orders would wait for each other.
      const ids = marks.map(([id]) => id);
      await change
        .selectFrom('api_keys')
        .select('id')
        .where('id', 'in', ids)
        .orderBy('id')
        .forUpdate()
        .execute();
    }
    const values = marks.map(([id, at]) => sql`(cast(${id} as text), cast(${at} as bigint))`);
    await sql`
      update api_keys set last_used_at = seen.column2
      from (values ${sql.join(values)}) as seen
      where api_keys.id = seen.column1
        and (api_keys.last_used_at is null or api_keys.last_used_at < seen.column2)
    `.execute(change);
  }

  async adminTokenHash(): Promise<Uint8Array | undefined> {
    const hex = await readSetting(this.database, adminTokenSetting);
    return hex === undefined ? undefined : Uint8Array.fromHex(hex);
  }

  claimAdminToken(hash: Uint8Array): Promise<boolean> {
    return tellingAll(this.database, async (change) => {
      const kept = await claimSetting(change, adminTokenSetting, hash.toHex());
      return kept === hash.toHex();
    });
  }

  async setAdminTokenHash(hash: Uint8Array): Promise<void> {
    await tellingAll(this.database, async (change) => {
      await replaceSetting(change, adminTokenSetting, hash.toHex());
      return true;
    });
  }

  async version(): Promise<number> {
    const row = await this.database.read
      .selectFrom('changes')
      .select('version')
      .executeTakeFirstOrThrow();
    return row.version;
  }
}

/** A change that every process hears of, unless it changed nothing. */
export function tellingAll<T>(
  database: Database,
  work: (change: StoreTransaction) => Promise<T>,
): Promise<T> {
  return inTransaction(database, async (change) => {
    const made = await work(change);
    if (!made) return made;
    // Last in its transaction: all such changes wait for each other at this one row.
    await change
      .updateTable('changes')
      .set((of) => ({ version: of('version', '+', 1) }))
      .execute();
    return made;
  });
}
