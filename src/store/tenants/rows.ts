import { strict as assert } from 'node:assert';
import type { Insertable, Kysely, Selectable, Updateable } from 'kysely';
import type {
  ApiKey,
  KeyChange,
  KeyMatch,
  Tenant,
  TenantChange,
} from '../../auth/tenant-directory.ts';
import { type Scope, scopes } from '../../core/caller.ts';
import { parseJson } from '../../core/json.ts';
import { repeatToPowerOfTwo } from '../batch-loader.ts';
import type { Database, StoreTransaction } from '../database.ts';
import type { ApiKeysTable, Flag, Schema, TenantsTable } from '../schema.ts';

type Row = Selectable<ApiKeysTable>;
type HashColumn = 'secret_hash' | 'previous_hash';

/** Looks up keys by the hashes of their secrets: current ones first, then rotated ones. */
export async function findKeys(
  database: Database,
  hashes: readonly Uint8Array[],
): Promise<(hash: Uint8Array) => KeyMatch | undefined> {
  const current = await rowsBy(database, 'secret_hash', hashes);
  const missing = hashes.filter((hash) => !current.has(hash.toHex()));
  const previous = await rowsBy(database, 'previous_hash', missing);
  const tenants = await tenantsOf(database, [...current.values(), ...previous.values()]);
  return (requested) => {
    const inUse = current.get(requested.toHex());
    const row = inUse ?? previous.get(requested.toHex());
    const hash = inUse ? inUse.secret_hash : row?.previous_hash;
    const tenant = tenants.get(row?.tenant_id ?? '');
    if (!row || !hash || !tenant) return undefined;
    return { key: keyOf(row), tenant, hash, secretExpiresAt: inUse ? null : row.previous_until };
  };
}

async function rowsBy(
  { read }: Database,
  column: HashColumn,
  hashes: readonly Uint8Array[],
): Promise<ReadonlyMap<string, Row>> {
  if (hashes.length === 0) return new Map();
  const rows = await read
    .selectFrom('api_keys')
    .selectAll()
    .where('deleted_at', 'is', null)
    .where(column, 'in', repeatToPowerOfTwo(hashes))
    .execute();
  return new Map(rows.map((row) => [row[column]?.toHex() ?? '', row]));
}

async function tenantsOf(
  { read }: Database,
  rows: readonly Row[],
): Promise<ReadonlyMap<string, Tenant>> {
  const ids = [...new Set(rows.map((row) => row.tenant_id))];
  if (ids.length === 0) return new Map();
  const tenants = await read
    .selectFrom('tenants')
    .selectAll()
    .where('id', 'in', repeatToPowerOfTwo(ids))
    .execute();
  return new Map(tenants.map((row) => [row.id, tenantOf(row)]));
}

export async function countLiveKeys(read: Kysely<Schema>, tenantId: string): Promise<number> {
  const { count } = await read
    .selectFrom('api_keys')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('tenant_id', '=', tenantId)
    .where('deleted_at', 'is', null)
    .executeTakeFirstOrThrow();
  return count;
}

/** Returns true if the tenant has this many keys. Until the end, only `trx` can add one. */
export async function hasKeys(
  trx: StoreTransaction,
  tenantId: string,
  count: number,
): Promise<boolean> {
  if (count === Number.POSITIVE_INFINITY) return false;
  const tenant = trx.selectFrom('tenants').select('id').where('id', '=', tenantId);
  await tenant.forUpdate().execute();
  return (await countLiveKeys(trx, tenantId)) >= count;
}

export function tenantOf(row: Selectable<TenantsTable>): Tenant {
  return {
    id: row.id,
    name: row.name,
    disabled: row.disabled === 1,
    requestsPerMinute: row.requests_per_minute,
    concurrentRequests: row.concurrent_requests,
    plan: row.plan,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

export function tenantRow(tenant: Tenant): Insertable<TenantsTable> {
  return {
    id: tenant.id,
    name: tenant.name,
    disabled: flag(tenant.disabled),
    requests_per_minute: tenant.requestsPerMinute,
    concurrent_requests: tenant.concurrentRequests,
    plan: tenant.plan,
    created_at: tenant.createdAt,
    updated_at: tenant.updatedAt,
  };
}

/** Leaves absent fields undefined, which Kysely omits from the update. */
export function tenantUpdate(change: TenantChange): Updateable<TenantsTable> {
  return {
    name: change.name,
    disabled: change.disabled === undefined ? undefined : flag(change.disabled),
    requests_per_minute: change.requestsPerMinute,
    concurrent_requests: change.concurrentRequests,
    plan: change.plan,
  };
}

export function keyOf(row: Selectable<ApiKeysTable>): ApiKey {
  return {
    id: row.id,
    tenantId: row.tenant_id,
    kind: row.kind,
    label: row.label,
    name: row.name,
    // If both change at the same time, the operator's change wins.
    disabled: row.disabled === 1 || row.disabled_by_operator === 1,
    ...(row.disabled_by_operator === 1 ? { disabledByOperator: true } : {}),
    limitCredits: row.limit_credits,
    limitReset: row.limit_reset,
    models: row.models === null ? null : textList(row.models),
    scopes: row.scopes === null ? null : textList(row.scopes).map(asScope),
    requestsPerMinute: row.requests_per_minute,
    cacheMode: row.cache_mode,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    expiresAt: row.expires_at,
    lastUsedAt: row.last_used_at,
  };
}

export function keyRow(key: ApiKey, hash: Uint8Array): Selectable<ApiKeysTable> {
  return {
    id: key.id,
    tenant_id: key.tenantId,
    kind: key.kind,
    label: key.label,
    name: key.name,
    secret_hash: hash,
    previous_hash: null,
    previous_until: null,
    disabled: flag(key.disabled),
    disabled_by_operator: flag(key.disabledByOperator === true),
    deleted_at: null,
    limit_credits: key.limitCredits,
    limit_reset: key.limitReset,
    models: jsonText(key.models),
    scopes: jsonText(key.scopes),
    requests_per_minute: key.requestsPerMinute,
    cache_mode: key.cacheMode,
    created_at: key.createdAt,
    updated_at: key.updatedAt,
    expires_at: key.expiresAt,
    last_used_at: key.lastUsedAt,
  };
}

export function keyUpdate(change: KeyChange): Updateable<ApiKeysTable> {
  return {
    name: change.name,
    disabled: change.disabled === undefined ? undefined : flag(change.disabled),
    disabled_by_operator:
      change.disabledByOperator === undefined ? undefined : flag(change.disabledByOperator),
    limit_credits: change.limitCredits,
    limit_reset: change.limitReset,
    models: change.models === undefined ? undefined : jsonText(change.models),
    scopes: change.scopes === undefined ? undefined : jsonText(change.scopes),
    requests_per_minute: change.requestsPerMinute,
    cache_mode: change.cacheMode,
    expires_at: change.expiresAt,
  };
}

function flag(value: boolean): Flag {
  return value ? 1 : 0;
}

function jsonText(list: readonly string[] | null): string | null {
  return list === null ? null : JSON.stringify(list);
}

function textList(text: string): string[] {
  const list = parseJson(text);
  assert(Array.isArray(list), "A stored list isn't a JSON array.");
  return list.map((item: unknown) => {
    assert(typeof item === 'string', "A stored list has an item that isn't a string.");
    return item;
  });
}

function asScope(text: string): Scope {
  const scope = scopes.find((known) => known === text);
  assert(scope, `A stored key has the scope ${text}, which this version doesn't know.`);
  return scope;
}
