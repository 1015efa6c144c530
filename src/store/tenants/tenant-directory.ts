import { type RawBuilder, type SqlBool, sql, type UpdateObject } from 'kysely';
import type {
  ApiKey,
  ChangedTenants,
  KeyChange,
  KeyMatch,
  KeyPage,
  NewSecret,
  Tenant,
  TenantChange,
  TenantDirectory,
  TenantOrder,
  TenantPage,
} from '../../auth/tenant-directory.ts';
import { walletName } from '../../money/ledger.ts';
import { recordChanges, stateOf } from '../audit-log.ts';
import { BatchLoader } from '../batch-loader.ts';
import { inVersionedTransaction, retainedChanges } from '../changes.ts';
import {
  byBytes,
  charged,
  type Engine,
  inTransaction,
  SqlRepository,
  type StoreTransaction,
} from '../database.ts';
import type { Schema } from '../schema.ts';
import { getOrCreateSetting, readSetting, replaceSetting } from '../settings.ts';
import {
  countLiveKeys,
  findKeys,
  hasKeys,
  keyOf,
  keyRow,
  keyUpdate,
  tenantOf,
  tenantRow,
  tenantUpdate,
} from './rows.ts';

const adminTokenSetting = 'admin_token_sha256';

/** Each key takes 2 parameters, and SQLite allows 32,766 per statement. */
const marksPerStatement = 1_000;

/** Few enough not to delay other writers noticeably. */
const purgedPerStatement = 500;

export class SqlTenantDirectory extends SqlRepository implements TenantDirectory {
  readonly #keyLoader = new BatchLoader((hashes: readonly Uint8Array[]) =>
    findKeys(this.database, hashes),
  );

  findKey(hash: Uint8Array): Promise<KeyMatch | undefined> {
    return this.#keyLoader.load(hash);
  }

  async addTenant(tenant: Tenant): Promise<'added' | 'exists'> {
    const added = await inVersionedTransaction(this.database, tenant.id, async (trx) => {
      const row = await trx
        .insertInto('tenants')
        .values(tenantRow(tenant))
        .onConflict((conflict) => conflict.column('id').doNothing())
        .returningAll()
        .executeTakeFirst();
      if (!row) return undefined;
      await record(trx, 'tenant.create', tenant.id, tenant.id, null, row);
      await trx
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

  async listTenants({ search = '', plan = null, order, ...page }: TenantPage) {
    const { report, engine } = this.database;
    const rows = await report
      .selectFrom('tenants')
      .selectAll()
      .$if(search !== '', (query) => query.where(tenantMatches(search, engine)))
      .$if(plan !== null, (query) => query.where('plan', '=', plan))
      .orderBy(
        order ? tenantSortKey(order, engine) : 'created_at',
        order?.isDescending ? 'desc' : 'asc',
      )
      .orderBy('id')
      .limit(page.limit)
      .offset(page.offset)
      .execute();
    return rows.map(tenantOf);
  }

  changeTenant(id: string, change: TenantChange, now: number): Promise<Tenant | undefined> {
    return inVersionedTransaction(this.database, id, async (trx) => {
      const tenants = trx.selectFrom('tenants').selectAll().where('id', '=', id);
      const before = await tenants.forUpdate().executeTakeFirst();
      const row = await trx
        .updateTable('tenants')
        .set({ ...tenantUpdate(change), updated_at: now })
        .where('id', '=', id)
        .returningAll()
        .executeTakeFirst();
      if (row) await record(trx, 'tenant.update', id, id, before ?? null, row);
      return row && tenantOf(row);
    });
  }

  async addKey(
    key: ApiKey,
    hash: Uint8Array,
    keysMax = Number.POSITIVE_INFINITY,
  ): Promise<'added' | 'exists' | 'full'> {
    let isFull = false;
    const added = await inVersionedTransaction(this.database, key.tenantId, async (trx) => {
      isFull = await hasKeys(trx, key.tenantId, keysMax);
      if (isFull) return undefined;
      const row = await trx
        .insertInto('api_keys')
        .values(keyRow(key, hash))
        .onConflict((conflict) => conflict.doNothing())
        .returningAll()
        .executeTakeFirst();
      if (row) await record(trx, 'key.create', key.tenantId, key.id, null, row);
      return row;
    });
    if (isFull) return 'full';
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

  countKeys(tenantId: string): Promise<number> {
    return countLiveKeys(this.database.read, tenantId);
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
      .$if(search !== '', (query) => query.where(keyMatches(search, engine)))
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
    return this.#updateKey('update', tenantId, id, { ...keyUpdate(change), updated_at: now });
  }

  async deleteKey(tenantId: string, id: string, now: number): Promise<boolean> {
    const cleared = { secret_hash: null, previous_hash: null, previous_until: null };
    const deleted = { ...cleared, deleted_at: now, updated_at: now };
    return (await this.#updateKey('delete', tenantId, id, deleted)) !== undefined;
  }

  rotateKey(
    tenantId: string,
    id: string,
    secret: NewSecret,
    now: number,
  ): Promise<ApiKey | undefined> {
    // Drop an expired old secret, because a process whose clock is behind would still accept it.
    const isStillValid = secret.previousSecretExpiresAt > now;
    return this.#updateKey('rotate', tenantId, id, {
      previous_hash: isStillValid ? sql.ref('secret_hash') : null,
      previous_until: isStillValid ? secret.previousSecretExpiresAt : null,
      secret_hash: secret.hash,
      label: secret.label,
      updated_at: now,
    });
  }

  /** Returns undefined if there is no such key or it was deleted. */
  #updateKey(
    verb: 'update' | 'delete' | 'rotate',
    tenantId: string,
    id: string,
    update: UpdateObject<Schema, 'api_keys'>,
  ): Promise<ApiKey | undefined> {
    return inVersionedTransaction(this.database, tenantId, async (trx) => {
      const keys = trx.selectFrom('api_keys').selectAll().where('id', '=', id);
      const before = await keys.forUpdate().executeTakeFirst();
      const row = await trx
        .updateTable('api_keys')
        .set(update)
        .where('tenant_id', '=', tenantId)
        .where('id', '=', id)
        .where('deleted_at', 'is', null)
        .returningAll()
        .executeTakeFirst();
      const after = verb === 'delete' ? null : (row ?? null);
      if (row) await record(trx, `key.${verb}`, tenantId, id, before ?? null, after);
      return row && keyOf(row);
    });
  }

  async markUsed(lastUsed: ReadonlyMap<string, number>): Promise<void> {
    const marks = [...lastUsed];
    for (let start = 0; start < marks.length; start += marksPerStatement) {
      const some = marks.slice(start, start + marksPerStatement);
      await inTransaction(this.database, (trx) => this.#mark(trx, some));
    }
  }

  async #mark(trx: StoreTransaction, marks: readonly [string, number][]): Promise<void> {
    if (this.database.engine === 'postgres') {
      // Lock in a fixed order, so that processes marking the same keys can't deadlock.
      const ids = marks.map(([id]) => id);
      await trx
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
    `.execute(trx);
  }

  async adminTokenHash(): Promise<Uint8Array | undefined> {
    const hex = await readSetting(this.database, adminTokenSetting);
    return hex === undefined ? undefined : Uint8Array.fromHex(hex);
  }

  claimAdminToken(hash: Uint8Array): Promise<boolean> {
    return inVersionedTransaction(this.database, null, async (trx) => {
      const stored = await getOrCreateSetting(trx, adminTokenSetting, hash.toHex());
      const isClaimed = stored === hash.toHex();
      if (isClaimed) await record(trx, 'admin_token.create', null, 'admin_token', null, null);
      return isClaimed;
    });
  }

  async setAdminTokenHash(hash: Uint8Array): Promise<void> {
    await inVersionedTransaction(this.database, null, async (trx) => {
      const before = await getOrCreateSetting(trx, adminTokenSetting, hash.toHex());
      await replaceSetting(trx, adminTokenSetting, hash.toHex());
      // A start with the token in the environment sets it each time.
      if (before !== hash.toHex())
        await record(trx, 'admin_token.replace', null, 'admin_token', null, null);
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

  async tenantsChanged(after: number, until: number): Promise<ChangedTenants> {
    if (until - after > retainedChanges) return null;
    const rows = await this.database.read
      .selectFrom('tenant_changes')
      .select('tenant_id')
      .where('version', '>', after)
      .where('version', '<=', until)
      .execute();
    if (rows.length < until - after) return null;
    const tenantIds = rows.map(({ tenant_id }) => tenant_id).filter((id) => id !== null);
    return tenantIds.length < rows.length ? null : new Set(tenantIds);
  }

  async purgeUnusedKeys(deletedBefore: number): Promise<void> {
    for (let purged = purgedPerStatement; purged === purgedPerStatement; ) {
      const rows = await this.database.write
        .deleteFrom('api_keys')
        .where('id', 'in', (keys) =>
          keys
            .selectFrom('api_keys')
            .select('id')
            .where('deleted_at', '<', deletedBefore)
            .where('last_used_at', 'is', null)
            .where(({ not, exists, selectFrom }) =>
              not(
                exists(
                  selectFrom('accounts')
                    .select('accounts.id')
                    .where('accounts.owner', '>=', sql<string>`'key:' || api_keys.id`)
                    // The character after ':', which follows the key ID in an account of a period.
                    .where('accounts.owner', '<', sql<string>`'key:' || api_keys.id || ';'`),
                ),
              ),
            )
            .limit(purgedPerStatement),
        )
        .returning('id')
        .execute();
      purged = rows.length;
    }
  }
}

/** Records a change of a row. Null stands for no row. */
function record(
  trx: StoreTransaction,
  action: string,
  tenantId: string | null,
  target: string,
  before: object | null,
  after: object | null,
): Promise<void> {
  const states = { before: before && stateOf(before), after: after && stateOf(after) };
  return recordChanges(trx, [{ action, target, tenantId, ...states }], Date.now());
}

/** Matches tenants with this text in their name or ID. */
function tenantMatches(text: string, engine: Engine): RawBuilder<SqlBool> {
  return anyIsLike(['name', 'id'], `%${escapeLikePattern(text)}%`, engine);
}

/**
 * Matches keys whose name or label contains each of the words, or whose ID starts with the text.
 * Other parts of an ID aren't searched, because a short text occurs in many IDs by chance.
 */
function keyMatches(text: string, engine: Engine): RawBuilder<SqlBool> {
  const hasWord = (word: string) =>
    anyIsLike(['name', 'label'], `%${escapeLikePattern(word)}%`, engine);
  const hasAll = sql.join(text.split(/\s+/).map(hasWord), sql` and `);
  return sql<SqlBool>`(${anyIsLike(['id'], `${escapeLikePattern(text)}%`, engine)} or (${hasAll}))`;
}

function anyIsLike(columns: readonly string[], pattern: string, engine: Engine) {
  const isLike = (column: string) => sql`${lowerCased(column, engine)} like ${pattern} escape '!'`;
  return sql<SqlBool>`(${sql.join(columns.map(isLike), sql` or `)})`;
}

/** Escapes with `!`, because a backslash depends on `standard_conforming_strings`. */
function escapeLikePattern(text: string): string {
  const lowerCase = text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
  return lowerCase.replaceAll(/[!%_]/g, '!$&');
}

/** Ignores the case of A to Z only, because SQLite doesn't know the case of other letters. */
function lowerCased(column: string, engine: Engine): RawBuilder<string> {
  return sql<string>`lower(${byBytes(column, engine)})`;
}

const sums = {
  spend: sql`sum(${charged})`,
  requests: sql`sum(requests)`,
  failed_requests: sql`sum(failed_requests)`,
  written_off: sql`sum(written_off)`,
} as const;

/**
 * Returns the expression that tenants are sorted by. Each tenant's sums are read from a short range
 * of the daily sums, so the cost doesn't depend on the size of the log.
 */
function tenantSortKey({ by, days }: TenantOrder, engine: Engine): RawBuilder<unknown> {
  if (by === 'created_at') return sql.ref(by);
  if (by === 'name') return lowerCased(by, engine);
  const value =
    by === 'credits'
      ? sql`select balance from accounts where owner = ${walletName('')} || tenants.id`
      : sql`select ${sums[by]} from usage_daily
          where tenant_id = tenants.id and day between ${days.first} and ${days.last}`;
  return sql`coalesce((${value}), 0)`;
}
